"""Level 1: what the plugin leaves behind in a process that imports and asks it, or imports the platform's class, and
that then goes on to be SGLang's. Each row of the tables is a question to a fresh process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, Row, check, expect, rows
from sglang_platform.conformance.checks.packaging import activation, place_of, third_party, tops
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import probe_once, until_it_ends
from sglang_platform.conformance.probes.traces import SETTINGS
from sglang_platform.conformance.subject import Subject

__all__ = ["THREADS"]

THREADS = {"OMP_NUM_THREADS": "13", "MKL_NUM_THREADS": "13"}
"""Threads that no plugin asks for: where the operator's number is that of the plugin, as 1 often is, its change of it
would not be seen."""

_NO_THREADS = dict.fromkeys(THREADS)
_IDLE = 1.0
_SECONDS_TO_END = 20
"""After the import: an ordinary process takes a part of a second."""

_ENDS = {3: "sys.exit(3)", None: "an error that nobody catches"}
_AN_ERROR = 1
"""The status with which Python ends after an error."""


def _asked(subject: Subject, attempt: int = 0, threads: bool = True) -> dict[str, Any]:
    """What importing the plugin and asking it left behind, beside torch and the packages of others that it needs."""
    module, attribute = place_of(subject)
    told = activation(subject)
    if "raised" in told.get("asked", {}):
        raise Blocked("activate() raises: see packaging.activate_answers_in_form")
    others = sorted({"torch", "numpy", *third_party(told["imported"], module.partition(".")[0])} - {"sglang"})
    named = {"SGLANG_PLATFORM": subject.name, "SGLANG_PLATFORM_PLUGIN": None}
    return probe_once(
        "left_behind",
        f"it imports {module} and calls {attribute}()",
        attempt=attempt,
        environment={**named, **(THREADS if threads else _NO_THREADS)},
        module=module,
        attribute=attribute,
        preload=["sglang_platform.core", *others],
    )


def _class(subject: Subject, attempt: int = 0) -> dict[str, Any]:
    """What importing the platform's class did. Raises NotApplicable where there is none to judge."""
    told: dict[str, Any] | None = _asked(subject, attempt).get("platform")
    if told is None:
        raise NotApplicable("activate() names no class here")
    if told["host"]:
        raise NotApplicable("its class is on SGLang's, and SGLang is imported with it")
    own = place_of(subject)[0].partition(".")[0]
    if re.match(rf"(AttributeError|ModuleNotFoundError): .*'{re.escape(own)}[.']", told.get("raised", "")):
        raise CheckFailed(
            f"activate() names a class that is not there: {told['raised']}",
            fix='return the place of the platform class, as "package.module:Class"',
        )
    if "raised" in told:
        raise NotApplicable(f"its class cannot be imported here: {told['raised']}")
    return told


def _imported(subject: Subject, attempt: int = 0, *, to_the_class: bool = True) -> dict[str, Any]:
    """What the import of the class did, beside the packages of others that it needs."""
    module, attribute = place_of(subject)
    packages = {min((name for name, _ in subject.sources), key=len, default=module)}
    others = ["torch", "sglang_platform.core", *third_party(activation(subject)["imported"], "")]
    if to_the_class:
        platform = _class(subject)
        place = platform["place"].partition(":")[0]
        if not _among(place, packages):
            packages.add(place.partition(".")[0])
        others += platform["imported"]
    return probe_once(
        "platform_import",
        f"it imports {module}, calls {attribute}() and imports the platform's class",
        attempt=attempt,
        environment={"SGLANG_PLATFORM": subject.name, "SGLANG_PLATFORM_PLUGIN": None},
        seconds=120,
        module=module,
        attribute=attribute,
        packages=sorted(packages),
        preload=[name for name in dict.fromkeys(others) if not _among(name, packages)],
        to_the_class=to_the_class,
    )


def _among(name: str, packages: set[str]) -> bool:
    return any(f"{name}.".startswith(f"{one}.") for one in packages)


def _changes(group: str) -> Callable[[Subject], Iterable[str]]:
    return lambda subject: _asked(subject)["changes"].get(group, [])


def _of_the_process(subject: Subject) -> Iterator[str]:
    replaced = activation(subject)["replaced"]
    if replaced:
        yield f"modules of the host are replaced: {', '.join(replaced)}"
    yield from _changes("process")(subject)
    yield from _asked(subject, threads=False)["changes"].get("process", [])


def _of_the_class(subject: Subject) -> Iterator[str]:
    told, own = _class(subject), place_of(subject)[0].partition(".")[0]
    for one in (one for group in told["changes"].values() for one in group):
        if one.startswith((*SETTINGS, "threads run on")) or (
            one.startswith("sys.meta_path") and f"{own}." in one
        ):
            yield one
    if told["printed"].strip():
        yield f"it prints {told['printed'].strip()[:300]!r}"


def _waited_for(subject: Subject) -> Iterator[str]:
    yield from (f"starts {one}" for one in _imported(subject)["programs"])
    idle = float("inf")
    for attempt in range(3):
        idle = min(idle, _imported(subject, attempt)["idle"])
        if idle <= _IDLE:
            return
    yield f"waits {idle:.3g} s for something, each time"


def _ends_wrongly(subject: Subject) -> Iterator[str]:
    place = _class(subject)["place"]
    for ends, how in _ENDS.items():
        what = f"it imports {place} and ends by {how}"
        _, ending = until_it_ends("ending", what, within=_SECONDS_TO_END, place=place, ends=ends)
        wanted = _AN_ERROR if ends is None else ends
        if ending.status is None:
            yield f"does not end within {_SECONDS_TO_END} s of {how}"
        elif ending.status != wanted:
            yield f"ends with status {ending.status} after {how}, not with {wanted}"
        elif ends is None and "ends by an error" not in ending.said:
            yield f"ends by {how}, and standard error does not show it"


def _long(
    told: Callable[..., dict[str, Any]], times: float, least: float = 0.0
) -> Callable[[Subject], Iterator[str]]:
    """`times`: as long as some hundred modules of the standard library may take that, or `least` seconds."""

    def found(subject: Subject) -> Iterator[str]:
        seconds, floor = float("inf"), 0.0
        for attempt in range(4):  # on a busy machine one that waited long seems to have taken no time at all
            seconds = min(seconds, told(subject, attempt)["seconds"])
            floor = max(floor, _asked(subject, attempt)["floor_seconds"])
            if seconds <= max(times * floor, least):
                return
        yield (
            f"{seconds:.2g} s, each time, beside what it imports of others; {seconds / max(floor, 1e-3):.3g} times as"
            f" long as some hundred modules of the standard library ({floor:.2g} s)"
        )

    return found


def _read_at_the_start(subject: Subject) -> Iterable[str]:
    try:
        return _imported(subject)["reads"]  # type: ignore[no-any-return]
    except NotApplicable:
        return _imported(subject, to_the_class=False)["reads"]  # type: ignore[no-any-return]


_LEAVES = "asking the plugin leaves traces: "
_CLASS = "importing the platform's class "


_Found = tuple[Callable[[Subject], Iterable[str]], str, str]
"""What a fresh process tells and may not be there, what that is called, and the fix."""

_FIXES = {
    "threads": "start threads in init_backend()",
    "children": "wait for what the probe starts: subprocess.run(..., timeout=...), not Popen; start helpers in"
    " init_backend()",
    "logging": "log to logging.getLogger(__name__), and leave levels, handlers and filters to the application: no"
    " basicConfig, no filterwarnings outside catch_warnings()",
    "torch": "set what your device needs in init_backend() or where a tensor is made, with torch's own context"
    " managers; the host sets dtype and device itself",
    "functions": "change a function of the host with a hook that is registered by a general plugin, and nobody else's",
}
"""By group of what is left behind."""

_ASKED: dict[str, _Found] = {
    "imports": (
        lambda subject: sorted(tops(activation(subject)["imported"]) & {"sglang", "triton"}),
        "activate() and its module import ",
        "import them inside the functions that need them: activate() is called in every process, and while SGLang "
        "itself is being imported",
    ),
    "device contexts": (
        lambda subject: [
            f"torch.{one}"
            for one in activation(subject)["after"]["contexts"]
            if one not in activation(subject)["before"]["contexts"]
        ],
        "after activate() the process holds a device context: ",
        "look for the driver's files or ask its management library: the process that asks may fork, and a device "
        "context does not survive that",
    ),
    "process": (
        _of_the_process,
        _LEAVES,
        "set nothing where the module is imported; change the host's settings in server args, and put back in `finally`"
        " what a probe needs changed for a moment",
    ),
    **{group: (_changes(group), _LEAVES, fix) for group, fix in _FIXES.items()},
    "later calls": (
        lambda subject: _asked(subject)["registered"],
        "asking the plugin leaves functions that run later: ",
        "register in init_backend() what must happen at the end; the process that asks may not be one that serves",
    ),
    "output": (
        lambda subject: filter(None, [_asked(subject)["printed"].strip()[:400]]),
        "asking the plugin prints: ",
        "log with the logging module at DEBUG, and give the reason why a device is not here to PlatformUnavailable",
    ),
    "files": (
        lambda subject: _asked(subject)["written"],
        "asking the plugin writes ",
        "write caches in init_backend(), under the user's cache folder; activate() remembers nothing between processes",
    ),
    "time": (
        _long(_asked, 15.0),
        "importing the plugin and asking it takes ",
        "import what only the device needs inside the functions that use it; look for the driver's files instead of"
        " starting its tools; do not wait or retry in activate(): every process of the host does it",
    ),
    "start": (
        _read_at_the_start,
        "what the plugin answers depends on ",
        "let the answer depend on the machine and on environment variables, which processes inherit; name files by"
        " where they are, as Path(__file__).parent / ...: schedulers and workers have other arguments, and may be"
        " started in another folder",
    ),
}
_OF_CLASS: dict[str, _Found] = {
    "end": (
        _ends_wrongly,
        "a process that imported the platform's class ",
        "leave the end of the process to the host: no os._exit() in a function of atexit, no hook that swallows errors,"
        " and no thread that must be ended before Python ends, from the import of the class",
    ),
    "process": (
        _of_the_class,
        f"{_CLASS}leaves traces: ",
        "define at import, and set up in init_backend() or in the constructor; a process that only looks at the class"
        " must stay as it was, and the host's own settings come first",
    ),
    "functions": (
        lambda subject: _imported(subject)["functions"],
        f"{_CLASS}replaces functions: ",
        "change a function of the host with a hook that a general plugin registers, and leave torch's to torch: answer"
        " for your own device through the platform",
    ),
    "time": (
        _long(_class, 12.0, 10.0),
        f"{_CLASS}takes ",
        "import what only some models need where it is used; build and tune when the package is installed; do not wait:"
        " every process of the host does it, its launcher too",
    ),
    "waits": (
        _waited_for,
        _CLASS,
        "look for the driver's files, or ask its library; start programs and wait in init_backend(): every process of"
        " the host imports the class, those too that never use the device",
    ),
}


def _judge(subject: Subject, row: _Found) -> None:
    find, what, fix = row
    found = list(dict.fromkeys(find(subject)))
    expect(not found, f"{what}{'; '.join(found[:6])}", fix=fix)


@check(level=Level.PACKAGING, cases=rows(_ASKED), seconds=400, fix="set up in init_backend()")
def asking_leaves_the_process_alone(subject: Subject, case: Row) -> None:
    """Importing the plugin's module and calling `activate()` leaves the process as it was, reads nothing that differs
    between the processes of one server, and takes, beside torch and other packages, no more than fifteen times as long
    as importing some hundred modules of the standard library."""
    _judge(subject, _ASKED[case.row])


@check(level=Level.PACKAGING, cases=rows(_OF_CLASS), seconds=600, fix="set up in init_backend()")
def platform_module_leaves_the_process_alone(subject: Subject, case: Row) -> None:
    """Importing the platform's class, beside the packages of others that it needs, leaves the process as it was, waits
    for nothing, keeps no process from its end, and takes no more than 10 seconds, or twelve times as long as some
    hundred modules of the standard library."""
    _judge(subject, _OF_CLASS[case.row])
