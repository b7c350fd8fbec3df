"""Platform classes built directly on SGLang's own base class, which checks nothing: names that nobody calls,
signatures that do not take the host's calls, overrides that the resolution order hides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from sglang_platform.core.contract.drift import DriftRow, older_name, older_names
from sglang_platform.core.contract.members import kind_of
from sglang_platform.core.contract.members import public_names as contract_names
from sglang_platform.core.contract.signatures import bound_signature, broken_calls, without_annotations
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.inspect.doctor.finding import Finding
from sglang_platform.core.inspect.doctor.host_source import HostSource, is_hosts, public_names
from sglang_platform.core.inspect.doctor.part_class import is_vendors, takes_plain_calls
from sglang_platform.core.source.opening import package_files
from sglang_platform.core.spelling import nearest

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
            if is_hosts(first):
                yield Finding(
                    "override-unreached",
                    "problem",
                    f"{klass.__qualname__}.{name} is never reached",
                    origin,
                    f"SGLang's {first.__name__} defines it too, and stands before {klass.__name__} in the bases of "
                    f"{cls.__qualname__}",
                    f"put {klass.__name__} first in the bases of {cls.__qualname__}",
                )
                continue
            owner = next(k for k in cls.__mro__ if is_hosts(k) and name in vars(k))
            yield from _differs(klass, name, value, owner, origin, host)


def _differs(
    klass: type, name: str, value: object, owner: type, origin: PluginOrigin, host: HostSource
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
        )
        return
    if kind not in _CALLED:
        return
    contract, override = bound_signature(theirs, owner), bound_signature(value, klass)
    if contract is None or override is None:
        return
    broken = broken_calls(contract, override)
    if not broken:
        return
    call = host.call_not_taken(name, contract, override, "platform")
    fails = call is not None or not takes_plain_calls(contract, override)
    yield Finding(
        "override-signature",
        "problem" if fails else "warning",
        f"{klass.__qualname__}.{name}{without_annotations(override)} does not take the calls of {host}",
        origin,
        "it " + "; it ".join(broken) + (f"; {host} calls {call}" if call is not None else ""),
        f"write it as {name}{without_annotations(contract)}",
    )


def _unknown(
    cls: type,
    klass: type,
    name: str,
    defined: set[str],
    known: frozenset[str],
    origin: PluginOrigin,
    host: HostSource,
) -> Iterator[Finding]:
    """A public name that SGLang's classes do not define: an older one, a later one, the vendor's own, or a slip."""
    row = older_name(name)
    what = f"{host} does not call {klass.__qualname__}.{name}"
    if host.asks_for(name):
        if row is not None and row.member in known:
            yield Finding(
                "override-older-name",
                "warning",
                f"{klass.__qualname__}.{name}() is an older name, which {host} still serves",
                origin,
                "it logs a deprecation warning, and a later release will not ask for it",
                f"write {row.new}",
            )
        return
    if row is not None:
        yield _older(what, row, defined, known, origin)
    elif name in contract_names(SRTPlatform):
        yield from _later(what, name, defined, known, origin)
    elif kind_of(vars(klass)[name]) != "value" and not _used_by_its_vendor(klass, name):
        meant = nearest(name, known)
        yield Finding(
            "override-dead",
            "warning",
            f"{what}, and nothing in its own package does",
            origin,
            "the name is not in the host's interface",
            f"rename it to {meant}" if meant else "remove it, or start its name with an underscore",
        )


def _older(
    what: str, row: DriftRow, defined: set[str], known: frozenset[str], origin: PluginOrigin
) -> Finding:
    why = f"{row.old}() was {row.when}; nothing says so when the class is made"
    if row.member in defined and row.member in known:
        fix = "nothing to do, as long as the plugin serves those releases too"
        return Finding("override-not-called", "note", what, origin, f"{why}. {row.new} answers here", fix)
    return Finding("override-dead", "problem", what, origin, why, f"write {row.new}")


def _later(
    what: str, name: str, defined: set[str], known: frozenset[str], origin: PluginOrigin
) -> Iterator[Finding]:
    """A name of a later SGLang, or of this project's contract, on a class that no adapter serves."""
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


def _used_by_its_vendor(klass: type, name: str) -> bool:
    """Whether the vendor's own package says the name anywhere but where it is defined."""
    said: Callable[[bytes], list[bytes]] = re.compile(rb"\b%s\b" % name.encode()).findall
    defined: Callable[[bytes], list[bytes]] = re.compile(rb"\bdef\s+%s\b" % name.encode()).findall
    texts = [path.read_bytes() for _, path in package_files(klass.__module__)]
    return sum(len(said(text)) for text in texts) > sum(len(defined(text)) for text in texts)
