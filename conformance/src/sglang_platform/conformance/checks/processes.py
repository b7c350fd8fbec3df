"""Level 6: every process that the host starts comes to the same platform, plugins and hooks, and to no other's."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import (
    Blocked,
    CheckFailed,
    NotApplicable,
    NotRun,
    check,
    expect,
    mended_by,
)
from sglang_platform.conformance.checks.general_plugins import general_plugins
from sglang_platform.conformance.host.distribution import path_with, write_distribution
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import probe, whoami
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_ANSWERS = ("device_type", "_enum.name", "capabilities", "get_dispatch_key_name()", "get_compile_backend()")
_ON_THE_DEVICE = ("get_device_total_memory(0)", "get_device_name(0)")


def seen(subject: Subject, what: str, **given: Any) -> dict[str, Any]:
    """What a fresh process sees, or one that it starts."""
    seconds = 240 if subject.host == "sglang" else 100
    until = time.time() + seconds - 5
    told = probe("processes", what, seconds=seconds, until=until, **{**whoami(subject), **given})
    if "raised" in told:
        raise CheckFailed(f"{what}, and it ended with: {told['raised']}")
    return told


@cache
def _spawned_in_turn(subject: Subject) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Who, and what it sees: a process, one that it spawns, and one that this one spawns. The device is opened in each
    where it is here."""
    told = seen(
        subject,
        "a process comes to its platform, and spawns others",
        expressions=[*_ANSWERS, *(_ON_THE_DEVICE if subject.availability is None else ())],
        starts=subject.availability is None,
        spawns=2,
    )
    found = []
    for who in ("the first process", "a spawned process", "a process spawned by a spawned one"):
        if "raised" in told:
            raise CheckFailed(f"{who} comes to its platform, and it ended with: {told['raised']}")
        found.append((who, told))
        told = told.get("spawned", {})
    return tuple(found)


_check = partial(check, level=Level.PROCESSES, needs="platform")

_INHERITED = (
    "let the platform depend on the machine and on environment variables, which processes inherit; not on what the"
    " first process did, on the command line, or on files that it wrote"
)


@_check(seconds=400, fix=_INHERITED)
def child_processes_agree(subject: Subject) -> None:
    """A spawned process, one spawned by a spawned one, and, but in SGLang, which spawns, a child that is forked after
    the platform was used come to the same platform with the same answers."""
    (_, here), *others = _spawned_in_turn(subject)
    for who, there in others:
        _agree(here, there, who)
    if subject.host == "none":
        who = "a child forked after the platform was asked"
        with mended_by(
            "start threads and open the device in init_backend(), not when the platform is imported or instantiated"
        ):
            _agree(here, seen(subject, who, expressions=list(_ANSWERS), fork=True), who)


def _agree(here: dict[str, Any], there: dict[str, Any], who: str) -> None:
    answers = {text: (here["answers"][text], theirs) for text, theirs in there["answers"].items()}
    for what, (ours, theirs) in {"the platform's class": (here["class"], there["class"]), **answers}.items():
        expect(
            ours == theirs,
            f"{what} is {ours} in the first process, and {theirs} in {who}",
            case={"process": who},
        )


@_check(
    seconds=400,
    fix="register hooks in the general plugin's function or in init_backend(), unconditionally: both are called in"
    " every process, and each process starts empty",
)
def hooks_are_in_every_process(subject: Subject) -> None:
    """The hooks that the distribution's general plugins register, and those of `init_backend()` where the device is
    here, are the same in spawned processes."""
    general: set[str] = set()
    with suppress(NotApplicable) if subject.availability is None else nullcontext():
        general = {one.name for one in general_plugins(subject)}
    (_, here), *others = _spawned_in_turn(subject)
    failed = [one for one in here["plugins"] if one["name"] in general and one["state"] == "failed"]
    expect(not failed, f"the general plugin failed: {failed}")
    logged = [one for one in here.get("plugin_errors", ()) if any(name in one for name in general)]
    expect(
        not logged,
        f"SGLang goes on without the hooks of a general plugin: {'; '.join(logged)}",
        fix="correct what raises there: SGLang logs it in each process, and nothing else tells",
    )
    ours = _hooks(here)
    for who, there in others:
        theirs = _hooks(there)
        lost, added = (", ".join(sorted(one)) for one in (ours - theirs, theirs - ours))
        expect(not lost, f"{who} lacks the hook on {lost}", case={"process": who})
        expect(
            not added, f"{who} has a hook on {added} that the first process has not", case={"process": who}
        )


def _hooks(told: dict[str, Any]) -> set[str]:
    """Their targets; core's own are not the plugin's."""
    if "not_started" in told:
        raise Blocked("init_backend() raises: see contract.init_backend_can_be_called_twice")
    return {hook["target"] for hook in told["hooks"] if hook.get("plugin") != "sglang_platform_core"}


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
    told = probe(
        "processes",
        f"it runs on another platform, {_NAME}",
        environment=_neighbour(subject.scratch),
        name=_NAME,
        location=None,
        host="none",
        modules=[package],
    )
    expect(
        not told["imported"],
        f"SGLANG_PLATFORM={_NAME} names another platform, and {package} is imported all the same",
    )


@_check(
    hosts=("none",),
    fix="ask for nothing but your own device in activate(): do not go through the entry points of the group",
)
def neighbours_stay_out(subject: Subject) -> None:
    """Where this platform is named, no other plugin is imported, and one that would crash does no harm."""
    if subject.location is None and subject.availability is not None:
        raise NotRun(f"waits for the device: {subject.availability}", cause="device")
    told = probe(
        "processes",
        "it comes to the platform beside a plugin that ends its process when it is imported",
        environment=_neighbour(subject.scratch, crashes=True),
        modules=["neighbour_platform"],
        **whoami(subject),
    )
    expect(not told["imported"], "another platform's package, neighbour_platform, is imported")


def _package(subject: Subject) -> str:
    """The outermost package that is the plugin's alone."""
    assert subject.module is not None
    if subject.module.startswith("sglang_platform.conformance."):  # the suite's own reference platform
        return subject.module
    return min((name for name, _ in subject.sources), key=len, default=subject.module)


_NAME = "neighbour"


def _neighbour(scratch: Path, *, crashes: bool = False) -> dict[str, str]:
    """Another platform's distribution, installed in a folder of its own: the variables to find it."""
    folder = scratch / ("neighbour-crashing" if crashes else _NAME)
    write_distribution(
        folder, "neighbour-platform", {"sglang.srt.platforms": f"{_NAME} = neighbour_platform:activate"}
    )
    (folder / "neighbour_platform.py").write_text(_CRASHING if crashes else _NEIGHBOUR)
    return {"PYTHONPATH": path_with(folder)}


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
