"""What a process has, and one that it spawns: the platform, its answers, plugins and hooks.

Given: `name`, `location`, `host`; `expressions` on the platform, as text; `spawns`: how many processes each spawn the
next and look too; `fork`: look in a forked child alone; `modules`: which of these packages are imported; `starts`: call
`init_backend()` before hooks are told; `until`: when the last process must have answered, by the clock.

Core is imported after the platform: a process of the host has it only where a plugin imports it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from typing import Any

from sglang_platform.conformance.probes import tell

__all__ = ["come_to_the_platform", "name_the_platform"]

_TO_TELL = 5
"""Seconds for a process to say that the one behind it gave no answer."""

# Imports inside functions: a process of the host has core only where a plugin imports it, so here it comes after the
# platform; and only a process of SGLang imports SGLang.


def name_the_platform(given: dict[str, Any]) -> None:
    """Name `name`, and `location` if it is given, as an operator does: by variables."""
    os.environ["SGLANG_PLATFORM"] = given["name"]
    if given.get("location"):
        os.environ["SGLANG_PLATFORM_PLUGIN"] = f"{given['name']}={given['location']}"
    else:
        os.environ.pop("SGLANG_PLATFORM_PLUGIN", None)


def come_to_the_platform(host: str) -> Any:
    """The platform of this process, as a process of that host comes to it."""
    if host == "sglang":
        from sglang_platform.conformance.host.current import current_platform as platform_of_host

        return platform_of_host()
    from sglang_platform.core import load_plugins as load_by_our_rules
    from sglang_platform.core.discovery.current import current_platform

    load_by_our_rules()
    str(current_platform)  # touched, so that it is the platform and no longer a promise of one
    return current_platform


def look(given: dict[str, Any]) -> dict[str, Any]:
    """This process, after it came to its platform as a process of the host does."""
    told: dict[str, Any] = {"pid": os.getpid()}
    platform = come_to_the_platform(given["host"])
    if given["host"] == "sglang":
        from sglang_platform.conformance.host.current import errors_of_plugins

        told["plugin_errors"] = errors_of_plugins()
    told["class"] = f"{type(platform).__module__}.{type(platform).__qualname__}"
    told["answers"] = {text: _evaluate(text, platform) for text in given.get("expressions", [])}
    if given.get("starts"):
        try:
            platform.init_backend()
        except BaseException as error:  # noqa: BLE001 - told to the check
            told["not_started"] = f"{type(error).__name__}: {error}"
    from sglang_platform.core.hooks.registry import HookRegistry
    from sglang_platform.core.plugins import loaded_plugins

    told["plugins"] = [
        {"name": one.origin.name, "state": one.state, "reason": one.reason} for one in loaded_plugins()
    ]
    told["hooks"] = HookRegistry.report()
    told["imported"] = [
        name
        for name in given.get("modules", [])
        if name in sys.modules or any(m.startswith(f"{name}.") for m in sys.modules)
    ]
    return told


def _evaluate(text: str, platform: Any) -> str:
    """An answer's text; what a platform leaves out is an answer too: whether it may is asked elsewhere."""
    try:
        return repr(eval(f"platform.{text}", {"platform": platform}))  # the suite's own texts
    except NotImplementedError:
        return "NotImplementedError"


def _child(given: dict[str, Any], connection: Any) -> None:
    try:
        connection.send(look_from(given))
    except BaseException as error:  # noqa: BLE001 - told to the parent
        connection.send({"raised": f"{type(error).__name__}: {error}"})


def look_from(given: dict[str, Any]) -> dict[str, Any]:
    """`look`, with what the process sees that this one spawns as "spawned"; or in a forked child, after a look here."""
    if given.get("fork"):
        look({**given, "expressions": []})
        return _in_child("fork", {**given, "fork": False})
    told = look(given)
    if given.get("spawns"):
        told["spawned"] = _in_child("spawn", {**given, "spawns": given["spawns"] - 1})
    return told


def _in_child(method: str, given: dict[str, Any]) -> dict[str, Any]:
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    inner = {**given, "until": given["until"] - _TO_TELL}
    process = context.Process(target=_child, args=(inner, theirs))
    process.start()
    theirs.close()
    try:
        wait = max(0, given["until"] - time.time())
        told: dict[str, Any] = ours.recv() if ours.poll(wait) else {"raised": "no answer"}
    except EOFError:
        process.join(5)
        told = {"raised": f"the process ended with status {process.exitcode}"}
    process.join(1)
    if process.is_alive():
        process.kill()
    return told


def _look_as_named(given: dict[str, Any]) -> dict[str, Any]:
    name_the_platform(given)
    return look_from(given)


if __name__ == "__main__":
    tell(_look_as_named)
