"""Checks of a vendor's subclass of an SGLang class: overrides that reject SGLang's calls, and missing overrides.

The class is returned by a platform's factory in a running SGLang, or found in the plugin's source.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from sglang_platform.core.contract.members import kind_of
from sglang_platform.core.contract.signatures import bound_signature, without_annotations
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.spelling import nearest
from sglang_platform.devtools.doctor.host_source import HostSource, is_hosts
from sglang_platform.devtools.doctor.override import Override, used_by_its_vendor
from sglang_platform.devtools.source.signatures import decorators
from sglang_platform.devtools.written import is_unwritten, place_of, statement_of

__all__ = ["examine_missing", "examine_part_class", "is_vendors", "without_host_base"]

_CALLED = ("method", "classmethod", "staticmethod")
_CALLED_AT_EVERY_STEP = {"alloc_extend", "alloc_decode"}
_BY_ANOTHER_NAME = {"forward"}
"""Methods that SGLang calls through torch's `__call__`; direct calls of the name belong to other classes."""


def is_vendors(cls: type) -> bool:
    """Whether the class is from a plugin or one of its libraries: not from SGLang, Python or torch."""
    top = cls.__module__.partition(".")[0]
    return not is_hosts(cls) and top != "torch" and top not in sys.stdlib_module_names


def without_host_base(cls: type, answered: str, origin: PluginOrigin, host: HostSource) -> Finding:
    """The finding on a class that the factory call `answered` returns and that derives from no SGLang class."""
    why = f"its bases are {', '.join(base.__qualname__ for base in cls.__mro__[1:-1]) or 'none'}"
    fix = f"derive {cls.__qualname__} from the class of {host} that it stands in for"
    what = f"{answered} gives {cls.__qualname__}, which stands on no class of SGLang"
    # A runner need not: SGLang uses only its methods.
    return Finding("factory-answer", "warning", what, origin, why, fix, place_of(cls))


def examine_part_class(
    cls: type,
    origin: PluginOrigin,
    host: HostSource,
    *,
    made_by_host: bool,
    in_place_of: type | None = None,
    reads_all: bool = True,
) -> Iterator[Finding]:
    """The findings on the overrides of one class.

    made_by_host: SGLang constructs the objects. in_place_of: SGLang's own class for this part; its signatures count
    where a base class takes any arguments. reads_all: every base was read, so none can hide a call of a method.
    """
    yield from _abstract(cls, origin, host)
    for klass in filter(is_vendors, cls.__mro__):
        for name, value in vars(klass).items():
            theirs = next((k for k in cls.__mro__ if is_hosts(k) and name in vars(k)), None)
            first = next(k for k in cls.__mro__ if name in vars(k))
            private = name.startswith("_") and name != "__init__"
            known = any(name in vars(k) for k in cls.__mro__ if not is_vendors(k))
            is_own = not known and not private and kind_of(value) in _CALLED and reads_all
            if is_own and not host.says(name) and not used_by_its_vendor(klass, name):
                yield _dead(klass, name, origin, host)
            if theirs is None or first is not klass or private or name in _BY_ANOTHER_NAME:
                continue
            theirs = _signed(theirs, name, in_place_of)
            kind, wanted = kind_of(value), kind_of(vars(theirs)[name])
            if kind in _CALLED and wanted in _CALLED:
                override = Override(cls, klass, name, theirs, origin, host)
                yield from override.wrong_signature(of_platform=False, made_by_host=made_by_host)
                yield from override.other_number_of_values()
            elif kind != wanted and "property" in (kind, wanted) and {kind, wanted} & set(_CALLED):
                what = f"{klass.__qualname__}.{name} is a {kind}, and {theirs.__qualname__}.{name} of {host} a {wanted}"
                why, fix = "SGLang uses it as its own", f"write a {wanted}"
                yield Finding("override-kind", "problem", what, origin, why, fix, place_of(klass, name))


def _abstract(cls: type, origin: PluginOrigin, host: HostSource) -> Iterator[Finding]:
    """A problem for each abstract method of SGLang's that the class does not override."""
    for name in dir(cls):
        owner = next((k for k in cls.__mro__ if name in vars(k)), None)
        statement = statement_of(vars(owner)[name]) if owner is not None and is_hosts(owner) else None
        if owner is None or statement is None or "abstractmethod" not in decorators(statement):
            continue
        what = f"{cls.__qualname__} does not override {name}; {host} cannot make an object of it"
        why = f"{owner.__qualname__}.{name} is abstract"
        kinds = [one for one in ("classmethod", "staticmethod") if one in decorators(statement)]
        written = f"{''.join(f'@{one} ' for one in kinds)}def {name}({ast.unparse(statement.args)})"
        yield Finding("override-missing", "problem", what, origin, why, f"write {written}", place_of(cls))


def _dead(klass: type, name: str, origin: PluginOrigin, host: HostSource) -> Finding:
    what = f"{host} does not call {klass.__qualname__}.{name}, and nothing in its own package does"
    why = "no class that it stands on has the name, and no line of SGLang's says it"
    meant = nearest(name, {one for k in klass.__mro__ if is_hosts(k) for one in vars(k)})
    fix = f"rename it to {meant}" if meant else "remove it, or start its name with an underscore"
    return Finding("override-dead", "warning", what, origin, why, fix, place_of(klass, name))


def examine_missing(
    cls: type, in_place_of: type, origin: PluginOrigin, host: HostSource
) -> Iterator[Finding]:
    """The findings on methods that SGLang's own class implements, and for which `cls` inherits NotImplementedError."""
    for name in dir(in_place_of):
        owner = next((k for k in cls.__mro__ if name in vars(k)), None)
        theirs = next(k for k in in_place_of.__mro__ if name in vars(k))
        if name.startswith("__") or owner is None or not is_hosts(owner) or owner in in_place_of.__mro__[:1]:
            continue
        value = vars(owner)[name]
        abstract = "abstractmethod" in decorators(statement_of(value) or ast.Pass())
        if abstract or not is_unwritten(value) or is_unwritten(vars(theirs)[name]):
            continue
        call = next(iter(host.calls(name)), None)
        signature = bound_signature(vars(theirs)[name], theirs)
        if call is None or signature is None:
            continue
        yield Finding(
            "override-missing",
            "problem" if name in _CALLED_AT_EVERY_STEP else "note",
            f"{cls.__qualname__} does not override {name}; {host} calls it with {call.text}",
            origin,
            f"{owner.__qualname__}.{name} raises NotImplementedError; the call is at {call.place}",
            f"write {name}{without_annotations(signature)} in {cls.__qualname__}, or derive it from "
            f"{in_place_of.__qualname__}",
            place_of(cls),
        )


def _signed(theirs: type, name: str, in_place_of: type | None) -> type:
    """The SGLang class with the informative signature: `in_place_of`'s if the base method takes any arguments."""
    signature = bound_signature(vars(theirs)[name], theirs)
    kinds = {one.kind for one in signature.parameters.values()} if signature is not None else set()
    says_nothing = kinds and all(kind.name.startswith("VAR_") for kind in kinds)
    if not says_nothing or in_place_of is None:
        return theirs
    return next((k for k in in_place_of.__mro__ if is_hosts(k) and name in vars(k)), theirs)
