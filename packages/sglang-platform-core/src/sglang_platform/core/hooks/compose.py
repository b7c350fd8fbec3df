"""A stack of hooks as one generated frame.

Hooks wrap like an onion: the first is innermost, the last outermost. A frame per hook, as nested wrappers would have,
is not needed for that: BEFORE hooks run outermost first on the way in, AFTER hooks innermost first on the way out, and
an AROUND hook is a `functools.partial` that holds what is inside it. So a stack without AROUND costs one frame, and
each AROUND one C call more.

The frame has the kind of its target. What AFTER sees follows from it: the value that a function returns or a coroutine
function's await gives; the generator or async generator itself, before its first item, in whose place it may return
another iterator. The hooks of those three kinds run when the coroutine or generator runs, as the target's body does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from sglang_platform.core.errors import HookError, PluginOrigin
from sglang_platform.core.hooks.registration import RETURN_NONE, HookType
from sglang_platform.core.hooks.wrap import Flavour, flavour, lend_attributes

__all__ = ["Layer", "Wrapper"]

_PARTS = ("inner", "hook_", "layer_")
"""Names in a frame that stand for this stack's own parts."""


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
        """What AROUND hooks get as `original`: the target, or one of these."""
        self.function = FunctionType(self._frame(function, [], self._names), self._names)
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
        self._inside = []
        for layer in layers:
            if layer.type is not HookType.AROUND:
                pending.append(layer)
                continue
            if pending or (self.flavour != "plain" and flavour(inner) != self.flavour):
                names = self._namespace(self.function)  # its own: in the wrapper's it would refer to itself
                inner = self._as_original(FunctionType(self._frame(inner, pending, names), names))
                pending = []
            inner = self._as_original(functools.partial(layer.hook, inner))
        self._changes += 1
        self.function.__code__ = self._frame(inner, pending, self._names, f"_{self._changes}")

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
        yield from vars(self.function).values()
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

    def _frame(
        self, inner: Callable[..., Any], layers: Sequence[Layer], names: dict[str, Any], suffix: str = ""
    ) -> CodeType:
        """The code of one frame, with its parts bound in `names`."""
        names["inner" + suffix] = inner
        for i, layer in enumerate(layers):
            names[f"hook_{i}{suffix}"] = layer.hook
            names[f"layer_{i}{suffix}"] = layer
        shapes = tuple((layer.type, flavour(layer.hook) == "coroutine") for layer in layers)
        code = _template(self.flavour, flavour(inner) == self.flavour, shapes)
        name = getattr(inner, "__name__", code.co_name)
        return code.replace(  # also a copy: what the interpreter caches in it is about one namespace
            co_names=tuple(one + suffix if one.startswith(_PARTS) else one for one in code.co_names),
            co_name=name if isinstance(name, str) else code.co_name,
            co_filename=f"<hooks on {self.where}>",
        )

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


@functools.cache
def _template(kind: Flavour, same_kind: bool, shapes: tuple[tuple[HookType, bool], ...]) -> CodeType:
    source = "\n".join(_source(kind, same_kind, shapes))
    names: dict[str, Any] = {}
    exec(compile(source, "<hooks>", "exec"), names)
    code: CodeType = names["frame"].__code__
    return code


def _source(kind: Flavour, same_kind: bool, shapes: tuple[tuple[HookType, bool], ...]) -> Iterator[str]:
    """The text of a frame. Layers that follow an argument change keep the arguments they were called with."""
    asynchronous = kind in ("coroutine", "async generator")
    yield f"{'async ' if asynchronous else ''}def frame(*args, **kwargs):"
    arguments: dict[int, str] = {}
    for i in reversed(range(len(shapes))):
        type_, awaited = shapes[i]
        if type_ is HookType.BEFORE:
            yield f"    value = {_call(f'hook_{i}', awaited)}"
            yield "    if value is not None:"
            yield f"        args, kwargs = changed_arguments(value, layer_{i})"
        elif any(inner is HookType.BEFORE for inner, _ in shapes[:i]):
            arguments[i] = f"_{i}"
            yield f"    args_{i}, kwargs_{i} = args, kwargs"
    afters = [i for i, (type_, _) in enumerate(shapes) if type_ is HookType.AFTER]
    if kind == "plain" and not afters:
        yield f"    return {_call('inner', False)}"
        return
    yield f"    result = {_call('inner', kind == 'coroutine' and same_kind)}"
    if (kind == "coroutine" and not same_kind) or kind == "async generator":
        yield "    if hasattr(result, '__await__'):"
        yield "        result = await result"
    for i in afters:
        yield f"    value = {_call(f'hook_{i}', shapes[i][1], 'result, ', arguments.get(i, ''))}"
        yield "    if value is not None:"
        yield "        result = None if value is RETURN_NONE else value"
    yield from _ENDINGS[kind]


def _call(name: str, awaited: bool, first: str = "", suffix: str = "") -> str:
    """A call of one part. Without keyword arguments the shorter call is worth its test."""
    args, kwargs = f"args{suffix}", f"kwargs{suffix}"
    call = f"{name}({first}*{args}, **{kwargs}) if {kwargs} else {name}({first}*{args})"
    return f"await ({call})" if awaited else call


_ENDINGS: dict[Flavour, tuple[str, ...]] = {
    "plain": ("    return result",),
    "coroutine": ("    return result",),
    "generator": (
        "    if result is not None:",
        "        return (yield from result)",
    ),
    # What `yield from` does for a generator: items out; sent values, thrown exceptions and the close in.
    "async generator": (
        "    if result is None:",
        "        return",
        "    stream = result.__aiter__()",
        "    step = stream.__anext__()",
        "    while True:",
        "        try:",
        "            item = await step",
        "        except StopAsyncIteration:",
        "            return",
        "        try:",
        "            sent = yield item",
        "        except GeneratorExit:",
        "            if hasattr(stream, 'aclose'):",
        "                await stream.aclose()",
        "            raise",
        "        except BaseException as error:",
        "            if not hasattr(stream, 'athrow'):",
        "                raise",
        "            step = stream.athrow(error)",
        "        else:",
        "            step = stream.__anext__() if sent is None else stream.asend(sent)",
    ),
}
