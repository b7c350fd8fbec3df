"""Level 6: every process that the host starts comes to the same platform, plugins and hooks, and to no other's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, NotRun, check, expect
from sglang_platform.conformance.checks.general_plugins import general_plugins
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import probe, whoami
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_ANSWERS = ("device_type", "_enum.name", "capabilities", "get_dispatch_key_name()", "get_compile_backend()")
_ON_THE_DEVICE = ("get_device_total_memory(0)", "get_device_name(0)")


def seen(subject: Subject, what: str, **given: Any) -> dict[str, Any]:
    """What a fresh process sees, or one that it starts."""
    seconds = _seconds(subject)
    told = probe("processes", what, seconds=seconds, wait=seconds - 5, **{**whoami(subject), **given})
    if "raised" in told:
        raise CheckFailed(f"{what}, and it ended with: {told['raised']}")
    return told


def _seconds(subject: Subject) -> float:
    return 240 if subject.host == "sglang" else 100


def _expressions(subject: Subject) -> list[str]:
    return [*_ANSWERS, *(_ON_THE_DEVICE if subject.availability is None else ())]


_check = partial(check, level=Level.PROCESSES, needs="platform")


@_check(
    seconds=300,
    fix="let the platform depend on the machine and on environment variables, which processes inherit; not on what the "
    "first process did, on the command line, or on files that it wrote",
)
def spawned_processes_agree(subject: Subject) -> None:
    """A spawned process, and one spawned by a spawned one, come to the same platform with the same answers."""
    expressions = _expressions(subject)
    here = seen(subject, "a process comes to its platform", expressions=expressions)
    for depth, who in ((1, "a spawned process"), (2, "a process spawned by a spawned one")):
        there = seen(subject, f"{who} comes to its platform", expressions=expressions, depth=depth)
        case = {"spawns": depth}
        expect(
            here["class"] == there["class"],
            f"{who} has the platform {there['class']}, not {here['class']}",
            case=case,
        )
        for text in expressions:
            ours, theirs = here["answers"][text], there["answers"][text]
            expect(ours == theirs, f"{text} is {ours} in the first process, and {theirs} in {who}", case=case)


@_check(
    seconds=200,
    hosts=("none",),
    fix="start threads and open the device in init_backend(), not when the platform is imported or instantiated",
)
def forked_processes_work(subject: Subject) -> None:
    """A child that is forked after the platform was used answers as well."""
    expressions = list(_ANSWERS)
    here = seen(subject, "a process comes to its platform", expressions=expressions)
    there = seen(
        subject,
        "a child forked after the platform was asked",
        expressions=expressions,
        fork=True,
        look_first=True,
    )
    for text in expressions:
        ours, theirs = here["answers"][text], there["answers"][text]
        expect(ours == theirs, f"{text} is {ours} in the parent, and {theirs} in the forked child")


@_check(
    seconds=400,
    fix="register hooks in the general plugin's function or in init_backend(), unconditionally: both are called in"
    " every process, and each process starts empty",
)
def hooks_are_in_every_process(subject: Subject) -> None:
    """The hooks that the distribution's general plugins register, and those of `init_backend()` where the device is
    here, are the same in spawned processes."""
    starts = subject.availability is None
    general: set[str] = set()
    try:
        general = {one.name for one in general_plugins(subject)}
    except NotApplicable:
        if not starts:
            raise
    here = seen(subject, "a process loads its plugins", starts=starts)
    failed = [one for one in here["plugins"] if one["name"] in general and one["state"] == "failed"]
    expect(not failed, f"the general plugin failed: {failed}")
    logged = [one for one in here.get("plugin_errors", ()) if any(name in one for name in general)]
    expect(
        not logged,
        f"SGLang goes on without the hooks of a general plugin: {'; '.join(logged)}",
        fix="correct what raises there: SGLang logs it in each process, and nothing else tells",
    )
    ours = _hooks(here)
    for depth, who in ((1, "a spawned process"), (2, "a process spawned by a spawned one")):
        if depth == 2 and not ours and not general:
            break
        theirs = _hooks(seen(subject, f"{who} loads its plugins", depth=depth, starts=starts))
        case = {"spawns": depth}
        lost = sorted(set(ours) - set(theirs))
        expect(not lost, f"{who} lacks the hook on {', '.join(lost)}", case=case)
        added = sorted(set(theirs) - set(ours))
        expect(not added, f"{who} has a hook on {', '.join(added)} that the first process has not", case=case)


def _hooks(told: dict[str, Any]) -> list[str]:
    """Their targets; core's own are not the plugin's."""
    if "not_started" in told:
        raise Blocked("init_backend() raises: see contract.init_backend_can_be_called_twice")
    return [hook["target"] for hook in told["hooks"] if hook.get("plugin") != "sglang_platform_core"]


@_check(
    needs="source",
    hosts=("none",),
    fix="keep the package out of .pth files, sitecustomize and other plugins' imports: it is loaded by its entry point "
    "when it is asked",
)
def unselected_plugin_stays_out(subject: Subject) -> None:
    """Where another platform is named, nothing of this plugin is imported."""
    if subject.module is None:
        raise NotRun("its module is not known")
    package = _package(subject)
    with neighbour(subject.scratch) as (name, variables):
        told = probe(
            "processes",
            f"it runs on another platform, {name}",
            environment=variables,
            name=name,
            location=None,
            host="none",
            modules=[package],
        )
    expect(
        not told["imported"],
        f"SGLANG_PLATFORM={name} names another platform, and {package} is imported all the same",
    )


@_check(
    hosts=("none",),
    fix="ask for nothing but your own device in activate(): do not go through the entry points of the group",
)
def neighbours_stay_out(subject: Subject) -> None:
    """Where this platform is named, no other plugin is imported, and one that would crash does no harm."""
    package = "neighbour_platform"
    with neighbour(subject.scratch, crashes=True) as (_, variables):
        told = probe(
            "processes",
            "it comes to the platform beside a plugin that ends its process when it is imported",
            environment=variables,
            modules=[package],
            **whoami_unresolved(subject),
        )
    expect(not told["imported"], f"another platform's package, {package}, is imported")


def whoami_unresolved(subject: Subject) -> dict[str, Any]:
    """The same as `whoami`, for a subject whose platform this process need not have."""
    if subject.location is None and subject.availability is not None:
        raise NotRun(f"waits for the device: {subject.availability}", cause="device")
    return {"name": subject.name, "location": subject.location, "host": subject.host}


def _package(subject: Subject) -> str:
    """The outermost package that is the plugin's alone."""
    assert subject.module is not None
    if subject.module.startswith("sglang_platform.conformance."):  # the suite's own reference platform
        return subject.module
    return min((name for name, _ in subject.sources), key=len, default=subject.module)


@contextmanager
def neighbour(scratch: Path, *, crashes: bool = False) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Another platform's distribution, installed in a folder of its own: its name, and the variables to find it."""
    folder = scratch / ("neighbour-crashing" if crashes else "neighbour")
    info = folder / "neighbour_platform-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: neighbour-platform\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sglang.srt.platforms]\nneighbour = neighbour_platform:activate\n"
    )
    (folder / "neighbour_platform.py").write_text(_CRASHING if crashes else _NEIGHBOUR)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    yield "neighbour", {"PYTHONPATH": path}


_CRASHING = """import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""

_NEIGHBOUR = """from sglang_platform.core import DeviceMixin, PlatformEnum, SRTPlatform, platform_plugin

@platform_plugin
def activate():
    return "neighbour_platform:Neighbour"

class Device(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "neighbour"

class Neighbour(SRTPlatform, Device):
    pass
"""
