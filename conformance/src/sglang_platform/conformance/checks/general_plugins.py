"""Level 1: what a distribution's general plugins leave behind in a process. Each runs in every process of SGLang."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.checks.traces import THREADS
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import probe
from sglang_platform.conformance.probes.traces import SETTINGS
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.distribution import normalize
from sglang_platform.core.discovery.groups import GENERAL_GROUP
from sglang_platform.core.discovery.scan import EntryPointRecord

__all__ = ["general_plugins"]

_BY_TORCH = "torch.backends"
"""The group of what torch calls whenever it is imported."""

_Plugins = Sequence[EntryPointRecord] | Sequence[metadata.EntryPoint]

_NOTHING_BY_TORCH = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
"""What it would call is called, and observed, by the probe."""

_LOGGING = ("the root logger's", "the logger")
"""What a process logs may be a general plugin's purpose."""


def general_plugins(subject: Subject) -> tuple[EntryPointRecord, ...]:
    """Those of the platform's distribution. Raises NotApplicable where it has none."""
    found = tuple(
        one
        for one in scan.records(GENERAL_GROUP)
        if subject.distribution and one.origin.distribution == subject.distribution
    )
    if not found:
        raise NotApplicable("its distribution registers no general plugin")
    return found


@check(
    level=Level.PACKAGING,
    fix="register hooks in the general plugin, and set up in init_backend() what your device needs: it is called in"
    " every process, those that never see the device too, and whichever platform serves",
)
def general_plugins_leave_the_process_alone(subject: Subject) -> None:
    """Calling the distribution's general plugins, and what it has torch call whenever that is imported
    (`torch.backends`), leaves torch's defaults and threads, the working directory, signals, random numbers, garbage
    collection, child processes and the start method as they were, and none listens at one address in every process.
    What modules of others that they import leave is not theirs."""
    by_torch = [
        one
        for one in metadata.entry_points(group=_BY_TORCH)
        if one.dist and subject.distribution and normalize(one.dist.name) == normalize(subject.distribution)
    ]
    if by_torch:
        _leave_the_process_alone(subject, by_torch, "what torch calls when it is imported,")
    _leave_the_process_alone(subject, general_plugins(subject), "the general plugin")


def _leave_the_process_alone(subject: Subject, plugins: _Plugins, what: str) -> None:
    told = _told(subject, plugins)
    if any(map(_settings, told.values())):
        own = tuple(one.value.partition(":")[0].partition(".")[0] + "." for one in plugins)
        others = {name for one in told.values() for name in one["imported"] if not f"{name}.".startswith(own)}
        told = _told(subject, plugins, preload=sorted(others))
    for name, one in told.items():
        left = _settings(one)
        expect(not left, f"{what} {name!r} leaves traces: {'; '.join(left)}")
    if any(one["listens"] for one in told.values()):
        again = _told(subject, plugins)
        for name, one in told.items():
            same = [address for address in one["listens"] if address in again[name]["listens"]]
            expect(
                not same,
                f"{what} {name!r} listens at {', '.join(same)} in every process: in the second of a server it is an"
                " error",
                fix="listen at a port that is free (port 0), or in one process alone, from what starts there",
            )


def _told(subject: Subject, plugins: _Plugins, preload: Sequence[str] = ()) -> dict[str, Any]:
    return probe(
        "general_plugins",
        "it calls the general plugins",
        environment={
            **_NOTHING_BY_TORCH,
            "SGLANG_PLATFORM": subject.name,
            "SGLANG_PLATFORM_PLUGIN": None,
            **THREADS,
        },
        seconds=120,
        plugins=[[one.name, one.value] for one in plugins],
        preload=preload,
    )


def _settings(told: dict[str, Any]) -> list[str]:
    """What one plugin changed that it must leave alone, in words."""
    found = [change for group in told["changes"].values() for change in group]
    return [change for change in found if change.startswith(SETTINGS) and not change.startswith(_LOGGING)]
