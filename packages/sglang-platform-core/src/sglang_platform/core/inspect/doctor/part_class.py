"""A pool, allocator or runner that a vendor wrote on SGLang's class: overrides that do not take what SGLang passes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

from sglang_platform.core.contract.members import kind_of
from sglang_platform.core.contract.signatures import bound_signature, broken_calls, without_annotations
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.inspect.doctor.finding import Finding
from sglang_platform.core.inspect.doctor.host_source import HostSource, is_hosts

__all__ = ["examine_part_class", "is_vendors", "takes_plain_calls"]

_CALLED = ("method", "classmethod", "staticmethod")


def is_vendors(cls: type) -> bool:
    """Whether the class is a plugin's, or a library's that it brings: not SGLang's, Python's or torch's."""
    top = cls.__module__.partition(".")[0]
    return not is_hosts(cls) and top != "torch" and top not in sys.stdlib_module_names


def examine_part_class(cls: type, answered: str, origin: PluginOrigin, host: HostSource) -> Iterator[Finding]:
    """The findings on a class that the factory call `answered` gives."""
    if not any(map(is_hosts, cls.__mro__)):
        why = f"its bases are {', '.join(base.__qualname__ for base in cls.__mro__[1:-1]) or 'none'}"
        fix = f"derive {cls.__qualname__} from the class of {host} that it stands in for"
        what = f"{answered} gives {cls.__qualname__}, which stands on no class of SGLang"
        # A runner need not: SGLang asks it for its methods only.
        yield Finding("factory-answer", "warning", what, origin, why, fix)
        return
    for klass in filter(is_vendors, cls.__mro__):
        for name, value in vars(klass).items():
            theirs = next((k for k in cls.__mro__ if is_hosts(k) and name in vars(k)), None)
            first = next(k for k in cls.__mro__ if name in vars(k))
            private = name.startswith("_") and name != "__init__"
            if theirs is None or first is not klass or private:
                continue
            yield from _differs(klass, name, value, theirs, origin, host)


def _differs(
    klass: type, name: str, value: object, theirs: type, origin: PluginOrigin, host: HostSource
) -> Iterator[Finding]:
    base = vars(theirs)[name]
    kind, wanted = kind_of(value), kind_of(base)
    if kind not in _CALLED or wanted not in _CALLED:
        if kind != wanted and {kind, wanted} & {"property"} and {kind, wanted} & set(_CALLED):
            what = f"{klass.__qualname__}.{name} is a {kind}, and {theirs.__qualname__}.{name} of {host} a {wanted}"
            yield Finding(
                "override-kind", "problem", what, origin, "SGLang uses it as its own", f"write a {wanted}"
            )
        return
    contract, override = bound_signature(base, theirs), bound_signature(value, klass)
    if contract is None or override is None:
        return
    broken = broken_calls(contract, override)
    if not broken:
        return
    yield _signature(klass, name, override, contract, broken, origin, host)


def _signature(
    klass: type,
    name: str,
    override: inspect.Signature,
    contract: inspect.Signature,
    broken: list[str],
    origin: PluginOrigin,
    host: HostSource,
) -> Finding:
    """A problem where the required arguments do not get through. Optional ones may never be passed: who calls a pool is
    often the vendor's own attention."""
    required = contract.replace(parameters=[p for p in contract.parameters.values() if p.default is p.empty])
    fails = not takes_plain_calls(required, override, by_name=name == "__init__")
    call = host.call_not_taken(name, contract, override)
    why = "it " + "; it ".join(broken) + (f"; {host} calls {call}" if call is not None else "")
    what = f"{klass.__qualname__}.{name}{without_annotations(override)} does not take the calls of {host}"
    fix = f"write it as {name}{without_annotations(contract)}"
    return Finding("override-signature", "problem" if fails else "warning", what, origin, why, fix)


def takes_plain_calls(
    contract: inspect.Signature, override: inspect.Signature, by_name: bool = False
) -> bool:
    """Whether calls by position, or all `by_name`, with all parameters and with the required ones, get through."""
    parameters = contract.parameters.values()
    for chosen in (list(parameters), [one for one in parameters if one.default is one.empty]):
        positional = [
            None
            for p in chosen
            if p.kind is p.POSITIONAL_ONLY or (p.kind is p.POSITIONAL_OR_KEYWORD and not by_name)
        ]
        keywords = {
            p.name: None
            for p in chosen
            if p.kind is p.KEYWORD_ONLY or (p.kind is p.POSITIONAL_OR_KEYWORD and by_name)
        }
        try:
            override.bind(*positional, **keywords)
        except TypeError:
            return False
    return True
