"""Level 1: what importing the plugin and asking it leaves behind in a process, which then goes on to be SGLang's."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.checks.packaging import activation, installed, third_party
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import probe
from sglang_platform.conformance.probes.traces import SETTINGS
from sglang_platform.conformance.subject import Subject

__all__ = ["THREADS", "of_platform"]

_SLOW = 15.0
_ATTEMPTS = 4
THREADS = {"OMP_NUM_THREADS": "13", "MKL_NUM_THREADS": "13"}
"""Threads that no plugin asks for: where the operator's number is that of the plugin, as 1 often is, its change of it
would not be seen."""


_NO_THREADS = dict.fromkeys(THREADS)


def _told(subject: Subject, attempt: int = 0, *, threads_named: bool = True) -> dict[str, Any]:
    record = installed(subject)
    module, _, attribute = record.value.partition("[")[0].replace(" ", "").partition(":")
    asked = activation(subject)
    if "raised" in asked.get("asked", {}):
        raise Blocked("activate() raises: see packaging.activate_answers_in_form")
    others = sorted(
        {"torch", "numpy", *third_party(asked["imported"], module.partition(".")[0])} - {"sglang"}
    )
    return _probed(module, attribute or "activate", subject.name, tuple(others), attempt, threads_named)


@cache
def _probed(
    module: str, attribute: str, name: str, preload: tuple[str, ...], attempt: int, threads_named: bool
) -> dict[str, Any]:
    threads = THREADS if threads_named else _NO_THREADS
    return probe(
        "left_behind",
        f"it imports {module} and calls {attribute}()",
        environment={"SGLANG_PLATFORM": name, "SGLANG_PLATFORM_PLUGIN": None, **threads},
        module=module,
        attribute=attribute,
        preload=["sglang_platform.core", *preload],
    )


def _unchanged(subject: Subject, group: str, *, threads_named: bool = True) -> None:
    told = _told(subject, threads_named=threads_named)["changes"].get(group, [])
    expect(not told, "asking the plugin leaves traces: " + "; ".join(told))


@check(
    level=Level.PACKAGING,
    fix="set nothing where the module is imported; change the host's settings in server args, and put back in `finally`"
    " what a probe needs changed for a moment",
)
def activate_leaves_the_process_alone(subject: Subject) -> None:
    """Asking changes no variable, also where the operator names no number of threads, no path, import finder, folder,
    umask, locale, signal handler, hook, limit, start method, garbage collection and random state of the process, and
    replaces no module of the host."""
    replaced = activation(subject)["replaced"]
    expect(
        not replaced,
        f"asking the plugin leaves traces: modules of the host are replaced: {', '.join(replaced)}",
    )
    _unchanged(subject, "process")
    _unchanged(subject, "process", threads_named=False)


@check(level=Level.PACKAGING, fix="start threads in init_backend()")
def activate_leaves_no_threads(subject: Subject) -> None:
    """No thread runs on when the plugin was asked: the process may fork, and a lock that a thread holds stays shut."""
    _unchanged(subject, "threads")


@check(
    level=Level.PACKAGING,
    fix="wait for what the probe starts: subprocess.run(..., timeout=...), not Popen; start helpers in init_backend()",
)
def activate_leaves_no_child_processes(subject: Subject) -> None:
    """No process that the plugin started runs on, or waits to be reaped, when it was asked."""
    _unchanged(subject, "children")


@check(
    level=Level.PACKAGING,
    fix="log to logging.getLogger(__name__), and leave levels, handlers and filters to the application: no basicConfig,"
    " no filterwarnings outside catch_warnings()",
)
def activate_leaves_logging_alone(subject: Subject) -> None:
    """The root logger, the loggers of the host, and the filters of warnings are as they were."""
    _unchanged(subject, "logging")


@check(
    level=Level.PACKAGING,
    fix="set what your device needs in init_backend() or where a tensor is made, with torch's own context managers; the"
    " host sets dtype and device itself",
)
def activate_leaves_torch_alone(subject: Subject) -> None:
    """torch's default dtype and device, threads, gradient mode, precision and determinism are as they were."""
    _unchanged(subject, "torch")


@check(
    level=Level.PACKAGING,
    fix="change a function of the host with a hook that is registered by a general plugin, and nobody else's",
)
def activate_replaces_no_functions(subject: Subject) -> None:
    """No function of builtins, the standard library or torch is replaced by asking the plugin."""
    _unchanged(subject, "functions")


@check(
    level=Level.PACKAGING,
    fix="register in init_backend() what must happen at the end; the process that asks may not be one that serves",
)
def activate_registers_nothing(subject: Subject) -> None:
    """No function of the plugin waits for the end of the process, or for a fork, when it was asked."""
    told = _told(subject)["registered"]
    expect(not told, f"asking the plugin leaves functions that run later: {', '.join(told)}")


@check(
    level=Level.PACKAGING,
    fix="log with the logging module at DEBUG, and give the reason why a device is not here to PlatformUnavailable",
)
def activate_prints_nothing(subject: Subject) -> None:
    """Asking the plugin writes nothing to standard output and standard error: commands of the host answer there."""
    told = _told(subject)["printed"].strip()
    expect(not told, f"asking the plugin prints: {told[:400]!r}")


@check(
    level=Level.PACKAGING,
    fix="write caches in init_backend(), under the user's cache folder; activate() remembers nothing between processes",
)
def activate_writes_no_files(subject: Subject) -> None:
    """Asking the plugin opens no file to be written and makes no folder, wherever it is."""
    told = list(dict.fromkeys(_told(subject)["written"]))
    expect(not told, f"asking the plugin writes {', '.join(told[:6])}")


@check(
    level=Level.PACKAGING,
    fix="import what only the device needs inside the functions that use it; look for the driver's files instead of"
    " starting its tools; do not wait or retry in activate()",
    seconds=200,
)
def import_and_activate_are_quick(subject: Subject) -> None:
    """Importing the module and calling `activate()` takes no more than fifteen times as long as importing some hundred
    modules of the standard library, beside torch and other packages: every process of the host does it."""
    seconds, floor = (
        float("inf"),
        0.0,
    )  # on a busy machine one that waited long seems to have taken no time at all
    for attempt in range(_ATTEMPTS):
        told = _told(subject, attempt)
        seconds, floor = min(seconds, told["seconds"]), max(floor, told["floor_seconds"])
        if seconds <= _SLOW * floor:
            return
    raise CheckFailed(
        f"importing the plugin and asking it takes {seconds:.2g} s, beside what it imports of others;"
        f" {seconds / max(floor, 1e-3):.3g} times as long as half a dozen modules of the standard library"
        f" ({floor:.2g} s)"
    )


@check(
    level=Level.PACKAGING,
    fix="define at import, and set up in init_backend() or in the constructor; a process that only looks at the class"
    " must stay as it was, and the host's own settings come first",
)
def platform_module_leaves_the_process_alone(subject: Subject) -> None:
    """Importing the platform's class prints nothing to standard output, leaves torch's defaults and threads, the root
    logger, signals, hooks, random numbers, garbage collection, child processes and the start method as they were,
    starts no thread that runs on, and puts no finder of the plugin's among those of all imports."""
    told = of_platform(subject)
    own = installed(subject).value.partition(":")[0].partition(".")[0]
    found = [
        one
        for group in told["changes"].values()
        for one in group
        if one.startswith((*SETTINGS, "threads run on"))
        or (one.startswith("sys.meta_path") and f"{own}." in one)
    ]
    expect(not found, f"importing the platform's class leaves traces: {'; '.join(found)}")
    printed = told["printed"].strip()
    expect(not printed, f"importing the platform's class prints: {printed[:300]!r}")


@check(
    level=Level.PACKAGING,
    fix="import what only some models need where it is used; build and tune when the package is installed; do not wait",
    seconds=400,
)
def platform_module_is_imported_soon(subject: Subject) -> None:
    """Importing the platform's class takes no more than 10 seconds, or twelve times as long as some hundred modules of
    the standard library (the best of three): every process of the host does it, its launcher too."""
    seconds, limit = float("inf"), 0.0
    for attempt in range(3):
        told, floor = of_platform(subject, attempt), _told(subject, attempt)["floor_seconds"]
        seconds, limit = min(seconds, told["seconds"]), max(limit, 10.0, 12 * floor)
        if seconds <= limit:
            return
    raise CheckFailed(
        f"importing the platform's class takes {seconds:.3g} s, each time; here {limit:.3g} s may pass"
    )


def of_platform(subject: Subject, attempt: int = 0) -> dict[str, Any]:
    """What importing the platform's class did. Raises NotApplicable where there is none to judge."""
    told: dict[str, Any] | None = _told(subject, attempt).get("platform")
    if told is None:
        raise NotApplicable("activate() names no class here")
    if told["host"]:
        raise NotApplicable("its class is on SGLang's, and SGLang is imported with it")
    own = installed(subject).value.partition(":")[0].partition(".")[0]
    if re.match(rf"(AttributeError|ModuleNotFoundError): .*'{re.escape(own)}[.']", told.get("raised", "")):
        raise CheckFailed(
            f"activate() names a class that is not there: {told['raised']}",
            fix='return the place of the platform class, as "package.module:Class"',
        )
    if "raised" in told:
        raise NotApplicable(f"its class cannot be imported here: {told['raised']}")
    return told
