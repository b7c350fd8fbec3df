"""The classes that platform plugins name: whether they exist, and the active one in a running SGLang."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sglang_platform.core.discovery import current
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.hooks.targets import MissingModule, parse, resolve
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.doctor.host_answers import ask_host, examine_live
from sglang_platform.devtools.doctor.host_source import installed_host
from sglang_platform.devtools.doctor.platform_location import PlatformLocation, platform_locations
from sglang_platform.devtools.source.answers import Absent, Definition
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.values import dotted

__all__ = ["examine_platform_classes", "platform_class_nowhere"]

_CORE = "sglang_platform.core."


def examine_platform_classes(lookup: Lookup, *, start_host: bool) -> Iterator[Finding]:
    """The findings: classes missing at their location, and what a running SGLang says of the active one.

    start_host: examine an active platform that is not on this project's contract in a running SGLang, in a subprocess.
    """
    trace = current.trace()
    for named in platform_locations(lookup):
        origin = named.origin if isinstance(named, PlatformLocation) else named
        active = trace is not None and any(
            one.origin == origin and one.outcome == "chosen" for one in trace.candidates
        )
        if active and start_host and installed_host() is not None and not _is_cores(lookup, named):
            answers = ask_host()
            yield from examine_live(answers)
            if answers.get("classes") is not None:
                continue
        nowhere = platform_class_nowhere(lookup, named) if isinstance(named, PlatformLocation) else None
        if nowhere is not None:
            yield nowhere


def _is_cores(lookup: Lookup, named: PlatformLocation | PluginOrigin) -> bool:
    """Whether the class derives from this project's contract, as far as its source shows."""
    waiting = (
        [Address(module, tuple(path.split("."))) for module, path in named.candidates()]
        if isinstance(named, PlatformLocation)
        else []
    )
    seen: set[Address] = set()
    while waiting:
        answer = lookup.find(waiting.pop())
        if not isinstance(answer, Definition) or answer.address in seen:
            continue
        seen.add(answer.address)
        if answer.address.module.startswith(_CORE):
            return True
        bases = [
            dotted(base) for node in answer.nodes if isinstance(node, ast.ClassDef) for base in node.bases
        ]
        waiting += [Address(answer.address.module, path) for path in bases if path is not None]
    return False


def platform_class_nowhere(lookup: Lookup, named: PlatformLocation) -> Finding | None:
    """The problem for a location without a class."""
    found = resolve(parse(named.location))
    module, colon, path = named.location.partition(":")
    if colon and isinstance(found, Address):  # the colon marks the module
        found = Address(module, tuple(path.split(".")))
    answer = found if isinstance(found, MissingModule) else lookup.find(found)
    if not isinstance(answer, MissingModule | Absent):
        return None
    return Finding(
        "platform-class-nowhere",
        "problem",
        f"the platform class {named.location} does not exist",
        named.origin,
        answer.why,
        f"did you mean {' or '.join(answer.nearest)}?"
        if answer.nearest
        else "correct what activate() returns",
    )
