"""Asks the plugins in a process of its own, for commands that must survive what they examine.

`ask_apart` does what a launch does, up to the choice, the class or the object, and this process learns the result: no
code of a plugin runs here. A plugin that ends the other process, or does not come back, is named, and the remaining
plugins are asked in another one. Each plugin is asked once.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sglang_platform.core.correction import package_of
from sglang_platform.core.discovery.kind import PlatformKind
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.discovery.own_process import StackFrame, run
from sglang_platform.core.discovery.resolve import PlatformChoice
from sglang_platform.core.discovery.trace import SLOW, Trace, describe_error, restored
from sglang_platform.core.errors import HostError, PlatformError, PluginEnded, PluginOrigin
from sglang_platform.core.installed.modules import find

__all__ = ["DecisionApart", "Depth", "ask_apart"]

Depth = Literal["choice", "class", "object"]

_log = logging.getLogger(__name__)
_LIMITS = {"activate": 30.0, "import": 180.0, "object": 900.0}
"""Seconds for each step of a plugin, which may build its native code when its object is made."""
_DECIDE = "sglang_platform.core.discovery.asked_process:decide"
_TO_BEGIN = 60.0
"""Seconds until the first plugin is asked."""


class DecisionApart(NamedTuple):
    """What a launch would decide."""

    trace: Trace
    error: PlatformError | None
    """Why the launch would be refused."""
    platform: dict[str, Any]
    """`plugin`, `class`, and with depth "object" `device_name` and `device_type`; empty if refused, or with depth
    "choice"."""
    origin: PluginOrigin | None
    """The plugin that was chosen."""

    def slow(self) -> list[tuple[PluginOrigin, str, float]]:
        """(plugin, step, seconds) of each step over `SLOW`."""
        slow = [
            (one.origin, "activate()", one.seconds or 0.0) for one in self.trace.candidates if one.is_slow
        ]
        origin = self.platform.get("plugin")
        if origin is not None:
            steps = self.platform["seconds"].items()
            slow += [(origin, f"the {step}", seconds) for step, seconds in steps if seconds > SLOW]
        return slow


def ask_apart(kind: PlatformKind, depth: Depth) -> DecisionApart:
    """The decision of a launch. `lazy_platform(kind)` has its choice and trace afterwards.

    depth: how far to go: choose a plugin, import its class, or make the platform object.
    """
    known: dict[int, dict[str, Any]] = {}
    while True:
        process = _Process(known)
        stopped = process.run(kind, depth)
        if stopped is None or process.stage["key"] is None:
            break
        known[process.stage["key"]] = {"error": describe_error(stopped), "seconds": process.seconds}
    result = process.result
    trace = Trace.from_dict(result["trace"]) if result["trace"] else Trace(kind.group)
    for key, told in known.items():
        if key < len(trace.candidates) and trace.candidates[key].seconds is not None:
            trace.candidates[key].seconds = told["seconds"]
    error = restored(result["error"])
    if stopped is not None:
        error = stopped
        candidate = trace.candidate(stopped.plugin) if stopped.plugin else trace.candidates[0]
        candidate.outcome, candidate.reason = "failed", str(stopped)
        trace.refused(stopped)
    origin = PluginOrigin(*result["origin"]) if result["origin"] else None
    choice = PlatformChoice(origin, result["location"], bool(result.get("may_fall_back")), trace)
    lazy_platform(kind)[1].learn(choice if result["chosen"] else None, trace, error)
    platform = result["platform"] or {}
    if platform.get("plugin"):
        platform["plugin"] = PluginOrigin(*platform["plugin"])
    return DecisionApart(trace, error, platform, platform.get("plugin", origin))


class _Process:
    """One process that decides, as far as it comes."""

    def __init__(self, known: dict[int, dict[str, Any]]) -> None:
        self.known = known
        self.stage: dict[str, Any] = {}
        self.result: dict[str, Any] = {}
        self.seconds = 0.0
        self._stopped: str | None = None

    def run(self, kind: PlatformKind, depth: Depth) -> PlatformError | None:
        """None if it gave a result; else the error that names the plugin that kept it from that."""
        asked = {"group": kind.group, "known": self.known, "depth": depth, "limits": _LIMITS}
        ending = run(_DECIDE, asked, self._heard, _TO_BEGIN, shows_output=True)
        if ending is None and self._stopped is None:
            return None
        how, stack = (ending.how, ending.stack) if ending is not None else (self._stopped or "", ())
        if not self.stage:
            raise HostError("the process that asks the plugins ended before it asked one", why=how)
        self.seconds = ending.seconds if ending is not None else 0.0
        origin = PluginOrigin(*self.stage["plugin"]) if self.stage["plugin"] else None
        place = _place(stack, self.stage["module"])
        return PluginEnded(
            f"platform plugin {origin.name!r} {how}" if origin else f"the base platform {how}",
            plugin=origin,
            why=f"{self.stage['doing']} was running, for {self.seconds:.1f} s"
            + (f", at {place}" if place else ""),
            fix="correct it there: a launch ends, or waits, there too; to launch without it, uninstall "
            f"{origin.distribution or 'it'}, or name another platform ({kind.variable}=NAME)"
            if origin
            else None,
        )

    def _heard(self, message: dict[str, Any]) -> None:
        if "stage" in message:
            self.stage = message["stage"]
            plugin = self.stage["plugin"]
            asked = PluginOrigin(*plugin) if plugin else "the base platform"
            _log.info("%s: %s", asked, self.stage["doing"])
        elif "asked" in message:
            self.known[message["asked"]] = message
        elif "stopped" in message:
            self._stopped = message["stopped"]
        else:
            self.result = {"chosen": "chosen" in message or bool(self.result), **next(iter(message.values()))}


def _place(stack: tuple[StackFrame, ...], module: str) -> str | None:
    """`file:line in function` of the innermost call in the plugin's package; None where there is none."""
    spec = find(package_of(module))[0] if module else None
    if spec is None:
        return None
    folders = spec.submodule_search_locations or ()
    for frame in stack:
        if frame.file == spec.origin or any(Path(frame.file).is_relative_to(folder) for folder in folders):
            return f"{frame.file}:{frame.line} in {frame.function}"
    return None
