"""Checks of platform classes built directly on SGLang's own base class, which checks nothing: names that nobody calls,
signatures that reject the host's calls, overrides hidden by the method resolution order.
"""

from __future__ import annotations

from collections.abc import Iterator

from sglang_platform.core.contract.drift import DriftRow, older_name, older_names
from sglang_platform.core.contract.drift_rows import BecameField
from sglang_platform.core.contract.members import kind_of
from sglang_platform.core.contract.members import public_names as contract_names
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.spelling import nearest
from sglang_platform.devtools.doctor.host_source import HostSource, is_hosts, public_names
from sglang_platform.devtools.doctor.override import Override, used_by_its_vendor
from sglang_platform.devtools.doctor.part_class import is_vendors
from sglang_platform.devtools.written import place_of

__all__ = ["examine_host_class"]

_CALLED = ("method", "classmethod", "staticmethod")


def examine_host_class(cls: type, origin: PluginOrigin, host: HostSource) -> Iterator[Finding]:
    """The findings on one class, its vendor's base classes included."""
    known = public_names(cls)
    vendors = list(filter(is_vendors, cls.__mro__))
    defined = {name for klass in vendors for name in vars(klass)}
    for klass in vendors:
        for name, value in vars(klass).items():
            if name.startswith("_"):
                continue
            if name not in known:
                yield from _unknown(cls, klass, name, defined, known, origin, host)
                continue
            first = next(k for k in cls.__mro__ if name in vars(k))
            if first is not klass and not is_hosts(first):
                continue  # shadowed by another vendor class, which SGLang reaches
            if is_hosts(first):
                direct = next((base for base in cls.__bases__ if issubclass(base, klass)), klass)
                yield Finding(
                    "override-unreached",
                    "problem",
                    f"{klass.__qualname__}.{name} is never reached",
                    origin,
                    f"SGLang's {first.__name__} defines it too, and stands before {klass.__name__} in the bases of "
                    f"{cls.__qualname__}",
                    f"put {direct.__name__} first in the bases of {cls.__qualname__}",
                    place_of(klass, name),
                )
                continue
            owner = next(k for k in cls.__mro__ if is_hosts(k) and name in vars(k))
            yield from _differs(cls, klass, name, value, owner, origin, host)


def _differs(
    cls: type, klass: type, name: str, value: object, owner: type, origin: PluginOrigin, host: HostSource
) -> Iterator[Finding]:
    theirs = vars(owner)[name]
    kind, wanted = kind_of(value), kind_of(theirs)
    if (kind in _CALLED) != (wanted in _CALLED):
        reads = f"calls {name}()" if wanted in _CALLED else f"reads {name} as an attribute"
        yield Finding(
            "override-kind",
            "problem",
            f"{klass.__qualname__}.{name} is a {kind}, and {host} {reads}",
            origin,
            f"{owner.__name__}.{name} is a {wanted}",
            f"write a {wanted}"
            if wanted in _CALLED
            else "assign it in the class body, or make it a property",
            place_of(klass, name),
        )
        return
    if kind not in _CALLED:
        return
    override = Override(cls, klass, name, owner, origin, host)
    yield from override.wrong_signature(of_platform=True)
    yield from override.other_number_of_values()


def _unknown(
    cls: type,
    klass: type,
    name: str,
    defined: set[str],
    known: frozenset[str],
    origin: PluginOrigin,
    host: HostSource,
) -> Iterator[Finding]:
    """The findings on a public name that SGLang's classes lack: an older or later name, the vendor's own, or a typo."""
    row, where = older_name(name), place_of(klass, name)
    what = f"{host} does not call {klass.__qualname__}.{name}"
    answers_today = row is not None and row.member in defined and row.member in known
    if host.asks_for(name):
        if row is not None and row.member in known and not answers_today:
            yield Finding(
                "override-older-name",
                "warning",
                f"{klass.__qualname__}.{name}() is an older name, which {host} still serves",
                origin,
                "it logs a deprecation warning, and a later release will not ask for it",
                f"write {row.new}",
                where,
            )
        return
    if row is not None:
        yield _older(what, row, answers_today, origin, host)._replace(where=where)
    elif name in contract_names(SRTPlatform):
        for finding in _later(what, name, defined, known, origin):
            yield finding._replace(where=where)
    elif kind_of(vars(klass)[name]) != "value" and not used_by_its_vendor(klass, name):
        meant = nearest(name, known)
        yield Finding(
            "override-dead",
            "warning",
            f"{what}, and nothing in its own package does",
            origin,
            "the name is not in the host's interface",
            f"rename it to {meant}" if meant else "remove it, or start its name with an underscore",
            where,
        )


def _older(what: str, row: DriftRow, answers_today: bool, origin: PluginOrigin, host: HostSource) -> Finding:
    why = f"{row.old}() was {row.when}; nothing says so when the class is made"
    if answers_today:
        fix = "nothing to do, as long as the plugin serves those releases too"
        return Finding("override-not-called", "note", what, origin, f"{why}. {row.new} answers here", fix)
    return Finding("override-dead", "problem", what, origin, why, _write_today(row, host))


def _write_today(row: DriftRow, host: HostSource) -> str:
    """The fix on SGLang's own class, whose `PlatformCapabilities` lacks some fields of this project's contract."""
    fields = host.fields_of("sglang.srt.platforms.interface", "PlatformCapabilities")
    if not isinstance(row, BecameField) or fields is None:
        return f"write {row.new}"
    if row.field in fields:
        return f"write {row.new}, as in `capabilities = PlatformCapabilities({row.field}=True)`"
    known = ", ".join(sorted(fields))
    return f"remove it: {host} asks no platform for it, and its PlatformCapabilities has {known} only"


def _later(
    what: str, name: str, defined: set[str], known: frozenset[str], origin: PluginOrigin
) -> Iterator[Finding]:
    """The finding on a name of a later SGLang or of this project's contract, on a class without the adapter."""
    here = [row.old for row in older_names() if row.member == name and row.old in known]
    if here and set(here) & defined:
        fix = "nothing to do: the older names answer here"
        yield Finding(
            "override-not-called", "note", what, origin, f"this release asks {', '.join(here)}", fix
        )
        return
    adapter = "derive the class from sglang_platform.core's SRTPlatform, whose adapter serves every release"
    yield Finding(
        "override-dead",
        "problem" if here else "warning",
        what,
        origin,
        f"this release asks {', '.join(here)}"
        if here
        else "the name is of a later release, or of core's contract",
        f"write {', '.join(here)} as well, or {adapter}" if here else adapter,
    )
