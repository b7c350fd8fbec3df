"""Level 1: a process that imports the platform's class goes on as it was, and the answer follows the machine alone."""

from __future__ import annotations

from functools import cache
from typing import Any

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.checks.packaging import activation, installed, third_party
from sglang_platform.conformance.checks.traces import of_platform
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import probe, until_it_ends
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import PLATFORM_GROUP

__all__: list[str] = []

_IDLE = 1.0
_ATTEMPTS = 3
_ENDS = {3: "sys.exit(3)", None: "an error that nobody catches"}
_AN_ERROR = 1
"""The status with which Python ends after an error."""

_SECONDS_TO_END = 20
"""After the import: an ordinary process takes a part of a second."""


def _told(subject: Subject, attempt: int = 0, *, to_the_class: bool = True) -> dict[str, Any]:
    value = installed(subject).value.partition("[")[0].replace(" ", "")
    module, _, attribute = value.partition(":")
    asked = activation(subject)
    packages = {min((name for name, _ in subject.sources), key=len, default=module)}
    others = ["torch", "sglang_platform.core", *third_party(asked["imported"], "")]
    if to_the_class:
        platform = of_platform(subject)
        place = platform["place"].partition(":")[0]
        if not _among(place, packages):
            packages.add(place.partition(".")[0])
        others += platform["imported"]
    preload = [name for name in dict.fromkeys(others) if not _among(name, packages)]
    return _probed(
        module, attribute or "activate", subject.name, tuple(packages), tuple(preload), to_the_class, attempt
    )


def _among(name: str, packages: set[str]) -> bool:
    return any(f"{name}.".startswith(f"{one}.") for one in packages)


@cache
def _probed(
    module: str,
    attribute: str,
    name: str,
    packages: tuple[str, ...],
    preload: tuple[str, ...],
    to_the_class: bool,
    attempt: int,
) -> dict[str, Any]:
    return probe(
        "platform_import",
        f"it imports {module}, calls {attribute}() and imports the platform's class",
        environment={"SGLANG_PLATFORM": name, "SGLANG_PLATFORM_PLUGIN": None},
        seconds=120,
        module=module,
        attribute=attribute,
        packages=packages,
        preload=preload,
        to_the_class=to_the_class,
    )


@check(
    level=Level.PACKAGING,
    fix="change a function of the host with a hook that a general plugin registers, and leave torch's to torch: answer"
    " for your own device through the platform",
)
def platform_module_replaces_no_functions(subject: Subject) -> None:
    """Importing the platform's class, beside the packages of others that it needs, replaces no function of builtins,
    the standard library or torch and its modules for accelerators."""
    found = _told(subject)["functions"]
    expect(not found, f"importing the platform's class replaces functions: {'; '.join(found)}")


@check(
    level=Level.PACKAGING,
    fix="look for the driver's files, or ask its library; start programs and wait in init_backend(): every process of"
    " the host imports the class, those too that never use the device",
    seconds=400,
)
def platform_module_waits_for_nothing(subject: Subject) -> None:
    """Importing the platform's class, beside the packages of others that it needs, starts no program and no process,
    and is idle for no more than a second (the best of three): no sleep, network, lock or child is waited for."""
    started = _told(subject)["programs"]
    expect(not started, f"importing the platform's class starts {'; '.join(started)}")
    idle = float("inf")
    for attempt in range(_ATTEMPTS):
        idle = min(idle, _told(subject, attempt)["idle"])
        if idle <= _IDLE:
            return
    raise CheckFailed(f"importing the platform's class waits {idle:.3g} s for something, each time")


@check(
    level=Level.PACKAGING,
    fix="leave the end of the process to the host: no os._exit() in a function of atexit, no hook that swallows errors,"
    " and no thread that must be ended before Python ends, from the import of the class",
    seconds=200,
)
def platform_module_lets_processes_end(subject: Subject) -> None:
    """A process that imports the platform's class and ends with 3 ends with 3, and one that ends by an error with 1 and
    the error in words, within 20 seconds: who started it looks at no more than that."""
    place = of_platform(subject)["place"]
    for ends, how in _ENDS.items():
        what = f"it imports {place} and ends by {how}"
        _, ending = until_it_ends("ending", what, within=_SECONDS_TO_END, place=place, ends=ends)
        expect(
            ending.status is not None,
            f"a process that imported the platform's class does not end within {_SECONDS_TO_END} s of {how}",
            case={"ends by": how},
        )
        wanted = _AN_ERROR if ends is None else ends
        expect(
            ending.status == wanted,
            f"a process that imported the platform's class ends with status {ending.status} after {how}, not with"
            f" {wanted}",
            case={"ends by": how},
        )
        expect(
            ends is not None or "ends by an error" in ending.said,
            f"a process that imported the platform's class ends by {how}, and standard error does not show it",
            case={"ends by": how},
        )


@check(
    level=Level.PACKAGING,
    fix="let the answer depend on the machine and on environment variables, which processes inherit; name files by"
    " where they are, as Path(__file__).parent / ...: schedulers and workers have other arguments, and may be started"
    " in another folder",
)
def answers_do_not_follow_the_start(subject: Subject) -> None:
    """From the question to the platform's object the plugin's code reads neither the command line nor a file by a name
    that depends on the working folder: processes of one server are started in different ways."""
    activation(subject)
    try:
        read = _told(subject)["reads"]
    except NotApplicable:
        read = _told(subject, to_the_class=False)["reads"]
    read = list(dict.fromkeys(read))
    expect(not read, f"what the plugin answers depends on {'; '.join(read[:4])}")


@check(
    level=Level.PACKAGING,
    fix="register one name, and choose the class in its function; or let each function decline where the machine has"
    " another device than its own",
)
def one_platform_is_active(subject: Subject) -> None:
    """Where no platform is named, no other entry point of the distribution is active together with this one: the host
    refuses to choose."""
    record = installed(subject)
    beside = [
        one
        for one in scan.records(PLATFORM_GROUP)
        if one.origin.distribution == record.origin.distribution and one.name != subject.name
    ]
    if not beside:
        return
    active = [one.name for one in (record, *beside) if _active(one.value)]
    expect(
        subject.name not in active or len(active) < 2,
        f"where no platform is named, {' and '.join(map(repr, active))} of {record.origin} are active",
    )


@cache
def _active(value: str) -> bool:
    module, _, attribute = value.partition("[")[0].replace(" ", "").partition(":")
    told = probe(
        "activation",
        f"it imports {module} and calls {attribute}(), and no platform is named",
        environment={"SGLANG_PLATFORM": None, "SGLANG_PLATFORM_PLUGIN": None},
        module=module,
        attribute=attribute or "activate",
    )
    return told.get("asked", {}).get("answer") is not None
