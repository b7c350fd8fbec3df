"""Checks of a vendor's subclass of an SGLang class: overrides that reject SGLang's calls, and missing overrides.

The class is returned by a platform's factory in a running SGLang, or found in the plugin's source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sglang_platform.core.contract.signatures import bound_signature, without_annotations
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.spelling import nearest
from sglang_platform.devtools.doctor.host_source import HostSource
from sglang_platform.devtools.doctor.override import Override
from sglang_platform.devtools.doctor.read_class import CALLED, ReadClass, ReadPart, class_of_process, is_hosts
from sglang_platform.devtools.source.signatures import decorators
from sglang_platform.devtools.upgrade.members import Function
from sglang_platform.devtools.written import is_unwritten, place_of, statement_of

__all__ = ["examine_missing", "examine_part_class", "without_host_base"]

_CALLED_AT_EVERY_STEP = {"alloc_extend", "alloc_decode"}
_BY_ANOTHER_NAME = {"forward"}
"""Methods that SGLang calls through torch's `__call__`; direct calls of the name belong to other classes."""


def without_host_base(cls: type, answered: str, host: HostSource) -> Finding:
    """The finding on a class that the factory call `answered` returns and that derives from no SGLang class."""
    why = f"its bases are {', '.join(base.__qualname__ for base in cls.__mro__[1:-1]) or 'none'}"
    fix = f"derive {cls.__qualname__} from the class of {host} that it stands in for"
    what = f"{answered} gives {cls.__qualname__}, which stands on no class of SGLang"
    # A runner need not: SGLang uses only its methods.
    return Finding("factory-answer", "warning", what, None, why, fix, place_of(cls))


def examine_part_class(
    cls: ReadClass, host: HostSource, *, made_by_host: bool, in_place_of: type | None = None
) -> Iterator[Finding]:
    """The findings on the overrides of one class.

    made_by_host: SGLang constructs the objects. in_place_of: SGLang's own class for this part; its signatures count
    where a base class takes any arguments.
    """
    yield from _abstract(cls, host)
    for klass in cls.vendors:
        for name, member in klass.members.items():
            theirs = cls.of_host(name)
            private = name.startswith("_") and name != "__init__"
            known = any(name in part.members for part in cls.mro if part.wrote != "vendor")
            is_own = not known and not private and member.kind in CALLED and cls.reads_all
            if is_own and not host.says(name) and not cls.is_used(klass, name):
                yield _dead(cls, klass, name, host)
            if theirs is None or cls.first(name) is not klass or private or name in _BY_ANOTHER_NAME:
                continue
            theirs = _signed(theirs, name, in_place_of)
            yield from Override(
                cls, klass, name, theirs, host, of_platform=False, made_by_host=made_by_host
            ).examined()


def _abstract(cls: ReadClass, host: HostSource) -> Iterator[Finding]:
    """A problem for each abstract method of SGLang's that the class does not override."""
    for name in sorted({name for part in cls.mro for name in part.members}):
        owner = cls.first(name)
        node = owner.members[name].node
        if (
            owner.wrote != "host"
            or not isinstance(node, Function)
            or "abstractmethod" not in decorators(node)
        ):
            continue
        what = f"{cls.name} does not override {name}; {host} cannot make an object of it"
        why = f"{owner.name}.{name} is abstract"
        kinds = [one for one in ("classmethod", "staticmethod") if one in decorators(node)]
        written = f"{''.join(f'@{one} ' for one in kinds)}def {name}({ast.unparse(node.args)})"
        yield Finding("override-missing", "problem", what, None, why, f"write {written}", cls.place)


def _dead(cls: ReadClass, klass: ReadPart, name: str, host: HostSource) -> Finding:
    what = f"{host} does not call {klass.name}.{name}, and nothing in its own package does"
    why = "no class that it stands on has the name, and no line of SGLang's says it"
    meant = nearest(name, {one for part in cls.mro if part.wrote == "host" for one in part.members})
    fix = f"rename it to {meant}" if meant else "remove it, or start its name with an underscore"
    return Finding("override-dead", "warning", what, None, why, fix, klass.members[name].place)


def examine_missing(cls: type, in_place_of: type, host: HostSource) -> Iterator[Finding]:
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
            None,
            f"{owner.__qualname__}.{name} raises NotImplementedError; the call is at {call.place}",
            f"write {name}{without_annotations(signature)} in {cls.__qualname__}, or derive it from "
            f"{in_place_of.__qualname__}",
            place_of(cls),
        )


def _signed(theirs: ReadPart, name: str, in_place_of: type | None) -> ReadPart:
    """The SGLang class with the informative signature: `in_place_of`'s if the base method takes any arguments."""
    signature = theirs.members[name].signature
    kinds = {one.kind for one in signature.parameters.values()} if signature is not None else set()
    says_nothing = kinds and all(kind.name.startswith("VAR_") for kind in kinds)
    if not says_nothing or in_place_of is None:
        return theirs
    return class_of_process(in_place_of).of_host(name) or theirs
