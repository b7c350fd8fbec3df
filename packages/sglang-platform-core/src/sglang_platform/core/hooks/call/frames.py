"""The text and code of the one frame that a stack of hooks is called through.

Two kinds of frame. The general one, ``(*args, **kwargs)``, fits every target and hands arguments on as they came. The
fitted one has the very parameters of its target: it costs what a frame written by hand costs, and is used where no hook
can tell the difference, that is, where each takes the target's parameters by the same names with the same defaults.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from sglang_platform.core.hooks.call.kinds import Flavour
from sglang_platform.core.hooks.registration import HookType

__all__ = ["PARTS", "Fit", "Shapes", "fit", "fits", "fitted", "general"]

PARTS = ("inner", "around", "hook_", "layer_", "rest_")
"""Names in a frame that stand for its stack's own parts."""

Shapes = tuple[tuple[HookType, bool], ...]
"""By layer, innermost first: its type, and whether it is a coroutine function."""

_LOCALS = ("hooks_value_", "hooks_result_", "hooks_args_", "hooks_kwargs_")
_STAR_ARGUMENTS = 0x4 | 0x8
_DEEPEST_NEST = 20
_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, type(...))


class Fit(NamedTuple):
    """The parameters of a function without ``*args`` and ``**kwargs``, and the defaults, by identity."""

    positional: tuple[str, ...]
    positional_only: int
    keywords: tuple[str, ...]
    defaults: tuple[Any, ...]
    keyword_defaults: dict[str, Any]

    @property
    def declaration(self) -> str:
        """As in a ``def``; the defaults themselves are the function's, not the code's."""
        required = len(self.positional) - len(self.defaults)
        parts = [name if i < required else f"{name}=None" for i, name in enumerate(self.positional)]
        if self.positional_only:
            parts.insert(self.positional_only, "/")
        if self.keywords:
            parts.append("*")
            parts += [f"{name}=None" if name in self.keyword_defaults else name for name in self.keywords]
        return ", ".join(parts)

    @property
    def arguments(self) -> str:
        """As in a call."""
        return ", ".join([*self.positional, *(f"{name}={name}" for name in self.keywords)])


def fit(function: Any) -> Fit | None:
    """The parameters of a Python function that a fitted frame can have.

    A default that is more than a constant may become another one: it may refer to what is hooked later.
    """
    found = _parameters(function)
    if found is None:
        return None
    ours = (*PARTS, *_LOCALS, "RETURN_NONE", "changed_arguments")
    taken = any(name.startswith(ours) for name in (*found.positional, *found.keywords))
    defaults = (*found.defaults, *found.keyword_defaults.values())
    return None if taken or not all(type(one) in _CONSTANTS for one in defaults) else found


def fits(target: Fit, function: Any, given: int) -> bool:
    """Whether `function` cannot tell a call by `target`'s parameters from the call that came.

    `given`: how many arguments it gets before the target's: the result, or the original.
    """
    found = _parameters(function)
    if found is None or len(found.positional) != given + len(target.positional):
        return False
    names = found.positional[given:]
    renamed = [(own, name) for own, name in zip(target.positional, names, strict=True) if own != name]
    if any(name in target.positional for _, name in renamed) or {*found.keywords} != {*target.keywords}:
        return False
    return _same_at_end(found.defaults, target.defaults) and all(
        name in target.keyword_defaults and value is target.keyword_defaults[name]
        for name, value in found.keyword_defaults.items()
    )


def _same_at_end(own: Sequence[Any], target: Sequence[Any]) -> bool:
    return len(own) <= len(target) and all(
        a is b for a, b in zip(reversed(own), reversed(target), strict=False)
    )


def _parameters(function: Any) -> Fit | None:
    bound = 0
    if isinstance(function, MethodType):
        function, bound = function.__func__, 1
    if not isinstance(function, FunctionType) or function.__code__.co_flags & _STAR_ARGUMENTS:
        return None
    code = function.__code__
    names, count = code.co_varnames, code.co_argcount
    if count < bound:
        return None
    return Fit(
        positional=names[bound:count],
        positional_only=max(0, code.co_posonlyargcount - bound),
        keywords=names[count : count + code.co_kwonlyargcount],
        defaults=function.__defaults__ or (),
        keyword_defaults=function.__kwdefaults__ or {},
    )


def general(kind: Flavour, same_kind: bool, around: bool, shapes: Shapes) -> CodeType:
    """A frame for any arguments. `same_kind`: what is inside it has the target's kind."""
    return _compiled(_general_source, kind, same_kind, around, shapes)


def fitted(types: tuple[HookType, ...], around: bool, target: Fit) -> CodeType | None:
    """A frame with the target's parameters around a plain function; None where the stack is too deep for it."""
    if len(types) > _DEEPEST_NEST:
        return None
    return _compiled(_fitted_source, types, around, target.declaration, target.arguments)


@functools.cache
def _compiled(source: Callable[..., Iterator[str]], *arguments: Any) -> CodeType:
    names: dict[str, Any] = {}
    exec(compile("\n".join(source(*arguments)), "<hooks>", "exec"), names)
    code: CodeType = names["frame"].__code__
    return code


def _fitted_source(
    types: tuple[HookType, ...], around: bool, declaration: str, arguments: str
) -> Iterator[str]:
    yield f"def frame({declaration}):"
    innermost = f"inner({arguments})"
    if around:
        innermost = f"around(inner, {arguments})"
    if HookType.AFTER in types:
        yield from _result_of(types, innermost, arguments, "    ")
        yield "    return hooks_result_"
        return
    for i in reversed(range(len(types))):
        yield f"    hooks_value_ = hook_{i}({arguments})"
        yield "    if hooks_value_ is not None:"
        yield f"        hooks_args_, hooks_kwargs_ = changed_arguments(hooks_value_, layer_{i})"
        yield f"        return rest_{i}(*hooks_args_, **hooks_kwargs_)"
    yield f"    return {innermost}"


def _result_of(types: tuple[HookType, ...], innermost: str, arguments: str, indent: str) -> Iterator[str]:
    """The outermost layer around the others. AFTER sees the arguments that came in at its own place."""
    if not types:
        yield f"{indent}hooks_result_ = {innermost}"
        return
    outermost, i = types[-1], len(types) - 1
    if outermost is HookType.BEFORE:
        yield f"{indent}hooks_value_ = hook_{i}({arguments})"
        yield f"{indent}if hooks_value_ is not None:"
        yield f"{indent}    hooks_args_, hooks_kwargs_ = changed_arguments(hooks_value_, layer_{i})"
        yield f"{indent}    hooks_result_ = rest_{i}(*hooks_args_, **hooks_kwargs_)"
        yield f"{indent}else:"
        yield from _result_of(types[:-1], innermost, arguments, indent + "    ")
        return
    yield from _result_of(types[:-1], innermost, arguments, indent)
    yield f"{indent}hooks_value_ = hook_{i}(hooks_result_, {arguments})"
    yield f"{indent}if hooks_value_ is not None:"
    yield f"{indent}    hooks_result_ = None if hooks_value_ is RETURN_NONE else hooks_value_"


def _general_source(kind: Flavour, same_kind: bool, around: bool, shapes: Shapes) -> Iterator[str]:
    """Layers that follow an argument change keep the arguments they were called with."""
    asynchronous = kind in ("coroutine", "async generator")
    yield f"{'async ' if asynchronous else ''}def frame(*args, **kwargs):"
    innermost = ("around", "inner, ") if around else ("inner", "")
    arguments: dict[int, str] = {}
    for i in reversed(range(len(shapes))):
        type_, awaited = shapes[i]
        if type_ is HookType.BEFORE:
            yield f"    value = {_call(f'hook_{i}', awaited=awaited)}"
            yield "    if value is not None:"
            yield f"        args, kwargs = changed_arguments(value, layer_{i})"
        elif any(inner is HookType.BEFORE for inner, _ in shapes[:i]):
            arguments[i] = f"_{i}"
            yield f"    args_{i}, kwargs_{i} = args, kwargs"
    afters = [i for i, (type_, _) in enumerate(shapes) if type_ is HookType.AFTER]
    if kind == "plain" and not afters:
        yield f"    return {_call(*innermost)}"
        return
    call = _call(*innermost, awaited=kind == "coroutine" and same_kind)
    yield f"    result = {call}"
    if (kind == "coroutine" and not same_kind) or kind == "async generator":
        yield "    if hasattr(result, '__await__'):"
        yield "        result = await result"
    for i in afters:
        yield f"    value = {_call(f'hook_{i}', 'result, ', arguments.get(i, ''), shapes[i][1])}"
        yield "    if value is not None:"
        yield "        result = None if value is RETURN_NONE else value"
    yield from _ENDINGS[kind]


def _call(name: str, first: str = "", suffix: str = "", awaited: bool = False) -> str:
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
