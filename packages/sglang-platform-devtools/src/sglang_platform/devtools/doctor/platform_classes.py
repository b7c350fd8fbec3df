"""Checks of all installed plugins' platform classes, by the rules of the base class: this project's or SGLang's."""

from __future__ import annotations

from collections.abc import Iterator

from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.discovery import current
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.errors import ContractError, PluginOrigin
from sglang_platform.core.hooks.targets import MissingModule, parse, resolve
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.doctor.class_shape import ClassShape, ShapeBuilder, UnreadableClass
from sglang_platform.devtools.doctor.core_overrides import examine_core_class, refused_class
from sglang_platform.devtools.doctor.host_answers import ask_host, examine_live
from sglang_platform.devtools.doctor.host_overrides import examine_host_class
from sglang_platform.devtools.doctor.host_source import HostSource, installed_host, is_hosts
from sglang_platform.devtools.doctor.platform_location import PlatformLocation, platform_locations
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.source.lookup import Lookup

__all__ = ["examine_platform_classes", "platform_class_nowhere"]


def examine_platform_classes(lookup: Lookup, *, start_host: bool) -> Iterator[Finding]:
    """The findings: dead names, drifted signatures, classes missing at their location. Imports none of the classes.

    start_host: examine an active platform that is not on this project's contract in a running SGLang, in a subprocess;
    fall back to its source if that fails.
    """
    builder = ShapeBuilder(lookup)
    host = installed_host(builder)
    trace = current.trace()
    for named in platform_locations(lookup):
        origin = named.origin if isinstance(named, PlatformLocation) else named
        active = trace is not None and any(
            one.origin == origin and one.outcome == "chosen" for one in trace.candidates
        )
        if active and start_host and host is not None and not _is_cores(builder, named):
            answers = ask_host()
            yield from examine_live(answers)
            if answers.get("classes") is not None:
                continue
        if not isinstance(named, PlatformLocation):
            yield _unread(named, f"the source of {named.name} does not spell out where its class is")
            continue
        nowhere = platform_class_nowhere(lookup, named)
        if nowhere is not None:
            yield nowhere
            continue
        try:
            shape = _shape(builder, named)
        except ContractError as error:
            yield refused_class(error, named.origin)
        except UnreadableClass as error:
            yield _unread(named.origin, str(error))
        else:
            yield from _examine(shape, named, host)


def _is_cores(builder: ShapeBuilder, named: PlatformLocation | PluginOrigin) -> bool:
    """Whether the class derives from this project's contract, as far as its source shows."""
    try:
        return isinstance(named, PlatformLocation) and issubclass(_shape(builder, named).cls, DeviceMixin)
    except ContractError:
        return True
    except UnreadableClass:
        return False


def _examine(shape: ClassShape, named: PlatformLocation, host: HostSource | None) -> Iterator[Finding]:
    if issubclass(shape.cls, DeviceMixin):
        yield from examine_core_class(shape, named.origin, host)
    elif host is not None and any(map(is_hosts, shape.cls.__mro__)):
        yield from examine_host_class(shape.cls, named.origin, host)
    else:
        bases = ", ".join(shape.unknown_bases) or "nothing that is known"
        yield _unread(named.origin, f"{named.location} stands on {bases}, of which no source was found")
        return
    if shape.unknown_bases:
        left_out = ", ".join(shape.unknown_bases)
        yield _unread(named.origin, f"of the bases of {named.location}, no source was found for {left_out}")


def _shape(builder: ShapeBuilder, named: PlatformLocation) -> ClassShape:
    refusals = []
    for module, path in named.candidates():
        try:
            return builder.build(module, path)
        except UnreadableClass as error:
            refusals.append(error)
    raise refusals[0]


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


def _unread(origin: PluginOrigin, why: str) -> Finding:
    return Finding(
        "platform-class-unread",
        "note",
        f"the platform class of {origin.name} could not be checked, or not all of it",
        origin,
        why,
        "it is checked when it is created: `sglang-platform info` creates the active one",
    )
