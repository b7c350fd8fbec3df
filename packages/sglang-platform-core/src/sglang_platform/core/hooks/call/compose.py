"""A stack of hooks as one generated frame.

Hooks wrap like an onion: the first is innermost, the last outermost. A frame per hook, as nested wrappers would have,
is not needed for that: BEFORE hooks run outermost first on the way in, AFTER hooks innermost first on the way out, and
an AROUND hook is a `functools.partial` that holds what is inside it. So a stack without AROUND costs one frame, and
each AROUND one C call more.

The text of a frame is in `frames`. It has the kind of its target. What AFTER sees follows from it: the value that
a function returns or a coroutine function's await gives; the generator or async generator itself, before its first
item, in whose place it may return another iterator. The hooks of those three kinds run when the coroutine or
generator runs, as the target's body does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from sglang_platform.core.errors import HookError, PluginOrigin
from sglang_platform.core.hooks.call.frames import PARTS, fit, fits, fitted, general
from sglang_platform.core.hooks.call.kinds import Flavour, flavour, lend_attributes
from sglang_platform.core.hooks.registration import RETURN_NONE, HookType

__all__ = ["Layer", "Wrapper"]


class Layer(NamedTuple):
    """One BEFORE, AFTER or AROUND hook of a stack."""

    type: HookType
    hook: Callable[..., Any]
    label: str
    origin: PluginOrigin | None


class Wrapper:
    """The function that stands in a target's place. It stays the same object while its hooks change.

    A call that is under way keeps the frame it started with: each change binds its parts under names of their own.
    """

    def __init__(self, function: Callable[..., Any], where: str) -> None:
        self.where = where
        self.flavour: Flavour = flavour(function)
        self._names = self._namespace(function)
        self._changes = 0
        self._inside: list[functools.partial[Any] | FunctionType] = []
        """What AROUND hooks get as `original`, and where a fitted frame goes on with changed arguments."""
        self._fit = fit(function) if self.flavour == "plain" else None
        self.function = FunctionType(general(self.flavour, True, False, ()), self._names)
        self.function.__code__ = self._frame(function, None, [], self._names)
        self._set_defaults(self.function)
        self.rebase(function)

    def rebase(self, function: Callable[..., Any]) -> None:
        """Take name, documentation, signature and `__wrapped__` from `function`."""
        functools.update_wrapper(self.function, function)
        if not isinstance(function, FunctionType):
            lend_attributes(self.function, function)
        self._described = function

    def stack(self, base: Callable[..., Any], layers: Sequence[Layer]) -> None:
        """Let calls go through `layers`, innermost first, to `base`: the target itself or its replacement."""
        inner, pending = base, list[Layer]()
        around: Callable[..., Any] | None = None
        self._inside = []
        for layer in layers:
            if layer.type is not HookType.AROUND:
                pending.append(layer)
                continue
            if pending or (self.flavour != "plain" and flavour(around or inner) != self.flavour):
                names = self._namespace(self.function)  # its own: in the wrapper's it would refer to itself
                code = self._frame(inner, around, pending, names)
                inner = self._as_original(self._set_defaults(FunctionType(code, names)))
                pending = []
            elif around is not None:
                inner = self._as_original(functools.partial(around, inner))
            around = layer.hook
        self._changes += 1
        self.function.__code__ = self._frame(inner, around, pending, self._names, f"_{self._changes}")

    def references(self, value: object) -> int:
        """How often the wrapper itself refers to `value`; `stale` looks for the references of others."""
        attributes = vars(self.function).values()
        lent = (getattr(one, "__self__", None) for one in attributes)
        held = [*self._names.values(), *attributes, *lent, self._described]
        for one in self._inside:
            held += (one.func, *one.args) if isinstance(one, functools.partial) else one.__globals__.values()
        return sum(one is value for one in held)

    def objects(self) -> Iterator[object]:
        """The wrapper's own objects that may refer to what it wraps."""
        yield from (self, vars(self), self._names, self.function, vars(self.function), self._inside)
        # The target is none of them: its defaults may refer to another one.
        yield from (one for name, one in vars(self.function).items() if name != "__wrapped__")
        for one in self._inside:
            yield from (one, one.args if isinstance(one, functools.partial) else one.__globals__)

    @staticmethod
    def _namespace(function: Callable[..., Any]) -> dict[str, Any]:
        return {
            "__name__": getattr(function, "__module__", None),
            "__builtins__": __builtins__,
            "changed_arguments": _changed_arguments,
            "RETURN_NONE": RETURN_NONE,
        }

    def _set_defaults(self, function: FunctionType) -> FunctionType:
        """Those of a fitted frame. A general one does not look at them, so they stay when the code changes."""
        if self._fit is not None:
            function.__defaults__ = self._fit.defaults or None
            function.__kwdefaults__ = self._fit.keyword_defaults or None
        return function

    def _frame(
        self,
        inner: Callable[..., Any],
        around: Callable[..., Any] | None,
        layers: Sequence[Layer],
        names: dict[str, Any],
        suffix: str = "",
    ) -> CodeType:
        """The code of one frame, with its parts bound in `names`.

        `layers` go around `inner`, or around ``around(inner, ...)``.
        """
        self._bind(names, inner, around, layers, suffix)
        code = self._fitted_code(inner, around, layers)
        if code is None:
            return self._named(self._general_code(inner, around, layers), inner, suffix)
        for i, layer in enumerate(layers):
            if layer.type is HookType.BEFORE:
                names[f"rest_{i}{suffix}"] = self._rest(inner, around, layers[:i])
        return self._named(code, inner, suffix)

    def _rest(
        self, inner: Callable[..., Any], around: Callable[..., Any] | None, layers: Sequence[Layer]
    ) -> FunctionType:
        """Where a fitted frame goes on when a BEFORE hook changed the arguments: they may have any form."""
        names = self._namespace(inner)
        self._bind(names, inner, around, layers)
        code = self._named(self._general_code(inner, around, layers), inner)
        rest = FunctionType(code, names)
        self._inside.append(rest)
        return rest

    def _named(self, code: CodeType, inner: Callable[..., Any], suffix: str = "") -> CodeType:
        name = getattr(inner, "__name__", code.co_name)
        return code.replace(  # also a copy: what the interpreter caches in it is about one namespace
            co_names=tuple(one + suffix if one.startswith(PARTS) else one for one in code.co_names),
            co_name=name if isinstance(name, str) else code.co_name,
            co_filename=f"<hooks on {self.where}>",
        )

    @staticmethod
    def _bind(
        names: dict[str, Any],
        inner: Callable[..., Any],
        around: Callable[..., Any] | None,
        layers: Sequence[Layer],
        suffix: str = "",
    ) -> None:
        names["inner" + suffix] = inner
        if around is not None:
            names["around" + suffix] = around
        for i, layer in enumerate(layers):
            names[f"hook_{i}{suffix}"] = layer.hook
            names[f"layer_{i}{suffix}"] = layer

    def _general_code(
        self, inner: Callable[..., Any], around: Callable[..., Any] | None, layers: Sequence[Layer]
    ) -> CodeType:
        shapes = tuple((layer.type, flavour(layer.hook) == "coroutine") for layer in layers)
        return general(self.flavour, flavour(around or inner) == self.flavour, around is not None, shapes)

    def _fitted_code(
        self, inner: Callable[..., Any], around: Callable[..., Any] | None, layers: Sequence[Layer]
    ) -> CodeType | None:
        """The code of a frame with the target's own parameters, if nothing in it can tell."""
        target = self._fit
        if target is None or not (fits(target, inner, 0) if around is None else fits(target, around, 1)):
            return None
        if not all(fits(target, layer.hook, layer.type is HookType.AFTER) for layer in layers):
            return None
        return fitted(tuple(layer.type for layer in layers), around is not None, target)

    def _as_original(self, inner: Any) -> Callable[..., Any]:
        """What an AROUND hook gets as `original` tells the target's name, whatever it is made of."""
        self._inside.append(inner)
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            value = getattr(self.function, attribute, None)
            if value is not None:
                setattr(inner, attribute, value)
        return inner  # type: ignore[no-any-return]


def _changed_arguments(value: Any, layer: Layer) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """What a BEFORE hook returned, if it is what one may return."""
    if isinstance(value, tuple | list) and len(value) == 2:
        args, kwargs = value
        if isinstance(args, tuple | list) and isinstance(kwargs, Mapping):
            return args, kwargs
    raise HookError(
        f"The {layer.label} returned {value!r}",
        plugin=layer.origin,
        why="a BEFORE hook returns None to keep the arguments, or (args, kwargs) to change them",
        fix="return None, or a tuple of all positional arguments and a dict of the keyword arguments",
    )
