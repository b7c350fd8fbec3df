"""The wrapper: the function installed over a target, which sends each call through a stack of hooks.

Hooks wrap like an onion: the first is innermost, the last outermost. Nested wrappers would cost a frame per hook, so
one frame calls all hooks whose type runs on the way in or on the way out (`frames` shows it). An AROUND hook gets
everything inside it as one callable, its `original`, usually a `functools.partial`. So a stack without AROUND hooks
costs one frame, and each AROUND hook adds one C call.

The frame has its target's flavour. An AFTER hook gets the value that a function returns, or the awaited value of a
coroutine. For a generator or async generator it gets the object itself, before its first item, and may return another
iterator instead. Hooks on coroutines and generators run when these run, like the target's body.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from sglang_platform.core.errors import HookError
from sglang_platform.core.hooks.call.fit import Parameters
from sglang_platform.core.hooks.call.frames import (
    PARTS,
    cannot_tell,
    fitted_code,
    general_code,
    parameters_to_declare,
)
from sglang_platform.core.hooks.call.kinds import flavour, lend_attributes
from sglang_platform.core.hooks.registration import Registration
from sglang_platform.core.hooks.types import RETURN_NONE, Flavour
from sglang_platform.core.spelling import shown

__all__ = ["Wrapper"]


_MARKS_OF_TORCH = ("_torchdynamo_", "_dynamo_")
"""Attributes that control how `torch.compile` treats a function. On the wrapper they would make it skip the hooks."""


class Section(NamedTuple):
    """The content of one frame: `layers` around ``inner(...)``, or around ``around(inner, ...)``."""

    inner: Callable[..., Any]
    around: Callable[..., Any] | None = None
    layers: tuple[Registration, ...] = ()

    @property
    def innermost(self) -> Callable[..., Any]:
        """The callable inside all layers."""
        return self.around or self.inner

    def parts(self) -> Iterator[tuple[str, Any]]:
        """The free names in the frame's code and their values, except `rest_`."""
        yield "inner", self.inner
        if self.around is not None:
            yield "around", self.around
        for i, layer in enumerate(self.layers):
            yield f"hook_{i}", layer.hook
            yield f"layer_{i}", layer

    def general(self, target: Flavour) -> CodeType:
        kinds = tuple((layer.type.record.place, flavour(layer.hook) == "coroutine") for layer in self.layers)
        return general_code(target, flavour(self.innermost) == target, self.around is not None, kinds)

    def fitted(self, target: Parameters) -> CodeType | None:
        """The code of a frame with the target's parameters; None if a callable in it could see a difference."""
        if not cannot_tell(self.innermost, target, 0 if self.around is None else 1):
            return None
        if not all(cannot_tell(one.hook, target, one.type.record.given) for one in self.layers):
            return None
        return fitted_code(
            tuple(one.type.record.place for one in self.layers), self.around is not None, target
        )


class Wrapper:
    """The function installed over a target. It stays the same object while its hooks change.

    A running call keeps the frame that it started with: each change of the stack gives the function new code, whose
    parts are bound under new names (``inner_1``, ``hook_0_1``, then ``inner_2`` and so on).
    """

    def __init__(self, target: Callable[..., Any], where: str) -> None:
        """`where` is the target's name in tracebacks: the frame's file name is ``<hooks on where>``."""
        self.where = where
        self.flavour: Flavour = flavour(target)
        self._declared = parameters_to_declare(target) if self.flavour == "plain" else None
        self._changes = 0
        self._stacked: tuple[int, ...] = ()
        """The ids of the base and of the layers' parts; the frame's globals keep these objects alive."""
        self._inside: list[functools.partial[Any] | FunctionType] = []
        """The callables created for this stack: the `original` of each AROUND hook, and the `rest_` frames."""
        self._globals = _frame_globals()
        self.function = self._with_defaults(
            FunctionType(general_code(self.flavour, True, False, ()), self._globals)
        )
        self.resemble(target)
        self.stack(target, [])

    def resemble(self, target: Callable[..., Any]) -> None:
        """Copy name, documentation, signature and `__wrapped__` from `target`."""
        functools.update_wrapper(self.function, target)
        for name in [name for name in vars(self.function) if name.startswith(_MARKS_OF_TORCH)]:
            delattr(self.function, name)
        if not isinstance(target, FunctionType):
            lend_attributes(self.function, target)

    def stack(self, base: Callable[..., Any], layers: Sequence[Registration]) -> bool:
        """Route calls through `layers`, innermost first, to `base`: the target itself or its replacement.

        Returns False if nothing changes: then the code is kept, and with it the compilation by `torch.compile`.
        """
        stacked = (id(base), *(id(part) for one in layers for part in (one.type, one.hook, one.origin)))
        if stacked == self._stacked:
            return False
        self._stacked = stacked
        self._inside = []
        section = Section(base)
        for layer in layers:
            record = layer.type.record
            if record.place == "around":
                section = Section(self._as_original(section), record.as_around(layer.hook, self.flavour))
            else:
                section = section._replace(layers=(*section.layers, layer))
        self._changes += 1
        self.function.__code__ = self._bind(section, self._globals, f"_{self._changes}")
        return True

    def references(self, value: object) -> int:
        """The number of references from the wrapper to `value`. `sweep` subtracts them to find other holders."""
        attributes = vars(self.function).values()
        lent = (getattr(one, "__self__", None) for one in attributes)
        held = [*self._globals.values(), *attributes, *lent]
        for one in self._inside:
            held += (one.func, *one.args) if isinstance(one, functools.partial) else one.__globals__.values()
        return sum(one is value for one in held)

    def objects(self) -> Iterator[object]:
        """The objects of this wrapper that may refer to its target.

        Excludes the target itself (reachable by `__wrapped__`), since its defaults may refer to another target.
        """
        yield from (self, vars(self), self._globals, self.function, vars(self.function), self._inside)
        yield from (one for name, one in vars(self.function).items() if name != "__wrapped__")
        for one in self._inside:
            yield from (one, one.args if isinstance(one, functools.partial) else one.__globals__)

    def _as_original(self, section: Section) -> Callable[..., Any]:
        """A section as one callable with the target's name: the `original` of the AROUND hook outside it."""
        original: Any
        if section.layers or self._lacks_flavour(section):
            original = self._with_defaults(self._function(section, fitted=True))
        elif section.around is not None:
            original = functools.partial(section.around, section.inner)
            self._inside.append(original)
        else:
            return section.inner
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            value = getattr(self.function, attribute, None)
            if value is not None:
                setattr(original, attribute, value)
        return original  # type: ignore[no-any-return]

    def _lacks_flavour(self, section: Section) -> bool:
        """True if calling the section gives another kind of result than the target, e.g. no coroutine."""
        return self.flavour != "plain" and flavour(section.innermost) != self.flavour

    def _function(self, section: Section, *, fitted: bool) -> FunctionType:
        """A nested frame with separate globals: in the wrapper's globals it would form a reference cycle."""
        names = _frame_globals()
        function = FunctionType(self._bind(section, names, fitted=fitted), names)
        self._inside.append(function)
        return function

    def _bind(
        self, section: Section, names: dict[str, Any], suffix: str = "", *, fitted: bool = True
    ) -> CodeType:
        """Put the parts of a frame into its globals `names`, with `suffix`; returns the code that uses them.

        `fitted` permits a frame with the target's parameters.
        """
        names.update({name + suffix: value for name, value in section.parts()})
        code = section.fitted(self._declared) if fitted and self._declared is not None else None
        if code is None:
            code = section.general(self.flavour)
        else:
            for i, layer in enumerate(section.layers):
                if layer.type.record.place == "way in":
                    rest = section._replace(layers=section.layers[:i])
                    names[f"rest_{i}{suffix}"] = self._function(rest, fitted=False)
        name = getattr(section.inner, "__name__", None)
        return code.replace(  # always copied: the interpreter caches the values of one namespace in it
            co_names=tuple(one + suffix if one.startswith(PARTS) else one for one in code.co_names),
            co_name=name if isinstance(name, str) else code.co_name,
            co_filename=f"<hooks on {self.where}>",
        )

    def _with_defaults(self, function: FunctionType) -> FunctionType:
        """Set the target's defaults. A general frame ignores them, so they can stay when the code changes."""
        if self._declared is not None:
            function.__defaults__ = self._declared.defaults or None
            function.__kwdefaults__ = dict(self._declared.keyword_defaults) or None
        return function


def _frame_globals() -> dict[str, Any]:
    """The globals of a frame, without its parts.

    They have no ``__name__``, because `torch.compile` would look up the parts in the module of that name.
    """
    return {
        "__builtins__": __builtins__,
        "changed_arguments": _changed_arguments,
        "RETURN_NONE": RETURN_NONE,
    }


def _changed_arguments(value: Any, layer: Registration) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The (args, kwargs) that a "way in" hook returned. Raises HookError for any other value."""
    if isinstance(value, tuple | list) and len(value) == 2:
        args, kwargs = value
        if isinstance(args, tuple | list) and isinstance(kwargs, Mapping):
            return args, kwargs
    raise HookError(
        f"The {layer.label} returned {shown(value)}",
        plugin=layer.origin,
        why=f"a {layer.type.name} hook returns None to keep the arguments, or (args, kwargs) to change them",
        fix="return None, or a tuple of all positional arguments and a dict of the keyword arguments",
    )
