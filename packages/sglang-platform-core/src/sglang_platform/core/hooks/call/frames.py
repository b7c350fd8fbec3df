"""Generates the source and code of the single frame that calls a stack of hooks.

There are two kinds of frame. The general frame takes ``(*args, **kwargs)``: it serves every target and forwards the
arguments unchanged. The fitted frame has the parameters of its target and is as fast as a hand-written frame. It is
used for plain functions if none of the called parts can see a difference: each takes the target's parameters with the
identical defaults, so the frame may pass them by position, however the caller passed them.

For one BEFORE hook (layer 0) and one AFTER hook around it (layer 1), the general frame is:

    def frame(*args, **kwargs):
        args_1, kwargs_1 = args, kwargs
        value = hook_0(*args, **kwargs) if kwargs else hook_0(*args)
        if value is not None:
            args, kwargs = changed_arguments(value, layer_0)
        result = inner(*args, **kwargs) if kwargs else inner(*args)
        value = hook_1(result, *args_1, **kwargs_1) if kwargs_1 else hook_1(result, *args_1)
        if value is not None:
            result = None if value is RETURN_NONE else value
        return result

And the fitted frame on a target with the parameters ``a, b=0``:

    def frame(a, b=None):
        hooks_value_ = hook_0(a, b)
        if hooks_value_ is not None:
            hooks_args_, hooks_kwargs_ = changed_arguments(hooks_value_, layer_0)
            hooks_result_ = rest_0(*hooks_args_, **hooks_kwargs_)
        else:
            hooks_result_ = inner(a, b)
        hooks_value_ = hook_1(hooks_result_, a, b)
        if hooks_value_ is not None:
            hooks_result_ = None if hooks_value_ is RETURN_NONE else hooks_value_
        return hooks_result_

The free names are its parts, which `compose` binds in the frame's globals:

    hook_0    the hook of layer 0; layers count from the innermost
    layer_0   that layer, for the error about an invalid return value of its hook
    inner     the callable inside the layers: the target, its replacement, or the `original` of `around`
    around    an AROUND hook directly inside the layers, called as ``around(inner, ...)``
    rest_0    everything inside layer 0, as a general frame: changed arguments may not fit the target's parameters

Each layer sees the arguments as they entered it: layer 1 above does not see the changes made by the hook inside it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

from sglang_platform.core.hooks.call.fit import Parameters, parameters
from sglang_platform.core.hooks.types import Flavour, Place

__all__ = ["PARTS", "LayerKinds", "cannot_tell", "fitted_code", "general_code", "parameters_to_declare"]

PARTS = ("inner", "around", "hook_", "layer_", "rest_")
"""Name prefixes of a frame's parts."""

_RESERVED = (
    *PARTS,
    *("hooks_value_", "hooks_result_", "hooks_args_", "hooks_kwargs_"),
    *("RETURN_NONE", "changed_arguments"),
)
"""Name prefixes reserved in a fitted frame. A target with such a parameter name gets a general frame."""

LayerKinds = tuple[tuple[Place, bool], ...]
"""Per layer, innermost first: its place, and whether its hook is a coroutine function."""

_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, type(...))

_DEEPEST_NEST = 20  # Python's limit on nested blocks


def general_code(flavour: Flavour, same_flavour: bool, around: bool, layers: LayerKinds) -> CodeType:
    """The code of a frame for any arguments. `same_flavour`: the innermost callable has the target's flavour."""
    return _compiled(_general_lines, flavour, same_flavour, around, layers)


def fitted_code(places: tuple[Place, ...], around: bool, target: Parameters) -> CodeType | None:
    """The code of a frame with the target's parameters; None if there are too many layers."""
    if len(places) > _DEEPEST_NEST:
        return None
    return _compiled(_fitted_lines, places, around, _declared(target), _passed(target))


def parameters_to_declare(target: Callable[..., Any]) -> Parameters | None:
    """The parameters of a target, if a fitted frame can declare them.

    None if a default is not a constant: it may refer to an object that is hooked later, and replaced by another one.
    """
    found = _parameters_without_stars(target)
    if found is None or any(name.startswith(_RESERVED) for name in (*found.positional, *found.keywords)):
        return None
    defaults = (*found.defaults, *found.keyword_defaults.values())
    return found if all(type(one) in _CONSTANTS for one in defaults) else None


def cannot_tell(function: Callable[..., Any], target: Parameters, given: int) -> bool:
    """True if `function` cannot distinguish a call by `target`'s parameters from the original call.

    `given` is the number of arguments before the target's. Defaults are compared by identity.
    """
    found = _parameters_without_stars(function)
    if found is None or len(found.positional) != given + len(target.positional):
        return False
    if {*found.keywords} != {*target.keywords}:
        return False
    pairs = zip(target.positional, found.positional[given:], strict=True)
    if any(own != name and name in target.positional for own, name in pairs):
        return False  # in another order
    return _same_at_end(found.defaults, target.defaults) and all(
        name in target.keyword_defaults and value is target.keyword_defaults[name]
        for name, value in found.keyword_defaults.items()
    )


def _parameters_without_stars(function: Callable[..., Any]) -> Parameters | None:
    inner = function.__func__ if isinstance(function, MethodType) else function
    found = parameters(function) if isinstance(inner, FunctionType) else None
    return None if found is None or found.takes_more or found.takes_any_keyword else found


def _same_at_end(own: Sequence[Any], target: Sequence[Any]) -> bool:
    return len(own) <= len(target) and all(
        a is b for a, b in zip(reversed(own), reversed(target), strict=False)
    )


def _declared(target: Parameters) -> str:
    """The parameter list of a ``def``: ``a, b=None``. The real defaults are set on the function, not in its code."""
    parts = [name if i < target.required else f"{name}=None" for i, name in enumerate(target.positional)]
    if target.positional_only:
        parts.insert(target.positional_only, "/")
    if target.keywords:
        parts.append("*")
        parts += [f"{name}=None" if name in target.keyword_defaults else name for name in target.keywords]
    return ", ".join(parts)


def _passed(target: Parameters) -> str:
    """The argument list of a call: ``a, b, k=k``."""
    return ", ".join([*target.positional, *(f"{name}={name}" for name in target.keywords)])


@functools.cache
def _compiled(lines: Callable[..., Iterator[str]], *arguments: Any) -> CodeType:
    names: dict[str, Any] = {}
    exec(compile("\n".join(lines(*arguments)), "<hooks>", "exec"), names)
    code: CodeType = names["frame"].__code__
    return code


def _fitted_lines(places: tuple[Place, ...], around: bool, declared: str, passed: str) -> Iterator[str]:
    innermost = f"around(inner, {passed})" if around else f"inner({passed})"
    yield f"def frame({declared}):"
    if "way out" in places:
        yield from _fitted_result(places, innermost, passed, "    ")
        yield "    return hooks_result_"
        return
    for i in reversed(range(len(places))):
        yield from _fitted_way_in(i, passed, "    ")
        yield f"        return rest_{i}(*hooks_args_, **hooks_kwargs_)"
    yield f"    return {innermost}"


def _fitted_result(places: tuple[Place, ...], innermost: str, passed: str, indent: str) -> Iterator[str]:
    """Lines that store the result of all layers in `hooks_result_`: those of the outermost layer enclose the others."""
    if not places:
        yield f"{indent}hooks_result_ = {innermost}"
        return
    *inside, outermost = places
    i = len(inside)
    if outermost == "way in":
        yield from _fitted_way_in(i, passed, indent)
        yield f"{indent}    hooks_result_ = rest_{i}(*hooks_args_, **hooks_kwargs_)"
        yield f"{indent}else:"
        yield from _fitted_result(tuple(inside), innermost, passed, indent + "    ")
    else:
        yield from _fitted_result(tuple(inside), innermost, passed, indent)
        yield f"{indent}hooks_value_ = hook_{i}(hooks_result_, {passed})"
        yield f"{indent}if hooks_value_ is not None:"
        yield f"{indent}    hooks_result_ = None if hooks_value_ is RETURN_NONE else hooks_value_"


def _fitted_way_in(i: int, passed: str, indent: str) -> Iterator[str]:
    """The call of a "way in" hook, up to the use of the changed arguments."""
    yield f"{indent}hooks_value_ = hook_{i}({passed})"
    yield f"{indent}if hooks_value_ is not None:"
    yield f"{indent}    hooks_args_, hooks_kwargs_ = changed_arguments(hooks_value_, layer_{i})"


def _general_lines(flavour: Flavour, same_flavour: bool, around: bool, layers: LayerKinds) -> Iterator[str]:
    yield f"{'async ' if flavour in ('coroutine', 'async generator') else ''}def frame(*args, **kwargs):"
    yield from _way_in(layers)
    innermost = ("around", "inner, ") if around else ("inner", "")
    on_way_out = [i for i, (place, _) in enumerate(layers) if place == "way out"]
    if flavour == "plain" and not on_way_out:
        yield f"    return {_call(*innermost)}"
        return
    yield f"    result = {_call(*innermost, awaited=flavour == 'coroutine' and same_flavour)}"
    if (flavour == "coroutine" and not same_flavour) or flavour == "async generator":
        yield "    if hasattr(result, '__await__'):"
        yield "        result = await result"
    for i in on_way_out:
        suffix = f"_{i}" if _keeps_arguments(layers, i) else ""
        yield f"    value = {_call(f'hook_{i}', 'result, ', suffix, awaited=layers[i][1])}"
        yield "    if value is not None:"
        yield "        result = None if value is RETURN_NONE else value"
    yield from _ENDINGS[flavour]


def _way_in(layers: LayerKinds) -> Iterator[str]:
    """From the outermost layer inwards: "way in" hooks run, "way out" hooks save the arguments for later."""
    for i, (place, awaited) in reversed(list(enumerate(layers))):
        if place == "way in":
            yield f"    value = {_call(f'hook_{i}', awaited=awaited)}"
            yield "    if value is not None:"
            yield f"        args, kwargs = changed_arguments(value, layer_{i})"
        elif _keeps_arguments(layers, i):
            yield f"    args_{i}, kwargs_{i} = args, kwargs"


def _keeps_arguments(layers: LayerKinds, i: int) -> bool:
    """True if layer `i` must save its arguments, because a hook inside it may change them."""
    return any(place == "way in" for place, _ in layers[:i])


def _call(name: str, first: str = "", suffix: str = "", awaited: bool = False) -> str:
    """A call of one part. Testing for ``kwargs`` costs less than an unneeded ``**kwargs``."""
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
    # The async counterpart of `yield from`: forwards items out, and sent values, thrown exceptions and close in.
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
