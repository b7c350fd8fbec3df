"""What of a plugin's code to correct for an error. No message sends a vendor into core's files or SGLang's.

An error belongs to the innermost frame of the plugin's code, or, where none of it was called, to the class from which
the platform or part was made: it inherits the method that raised. Only used on errors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = [
    "class_of_plugin",
    "correction",
    "is_plugins",
    "package_of",
    "place_in_plugin",
    "place_of_caller",
    "place_of_function",
]

_OURS = ("sglang_platform.core", "sglang_platform.devtools", "sglang_platform.conformance")
_REFERENCE = "sglang_platform.conformance.reference"
"""The suite's own platform: it is judged as a plugin."""
_BASES = ("sglang_platform.core", "sglang")
_LIBRARIES = frozenset(
    {"", "sglang", "torch", "triton", "numpy", "importlib_metadata", *sys.stdlib_module_names}
)
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def is_plugins(module: str) -> bool:
    """Whether a module of this name may be a plugin's: it is not ours, SGLang's, torch's, or Python's."""
    if _is_in(module, (_REFERENCE,)):
        return True
    return module.partition(".")[0] not in _LIBRARIES and not _is_in(module, _OURS)


def class_of_plugin(cls: type) -> type | None:
    """The first class in the MRO that is a plugin's; None for a class of core's, SGLang's or torch's."""
    return next((klass for klass in cls.__mro__ if is_plugins(klass.__module__)), None)


def place_of_caller() -> str:
    """`file:line` of the call of the function that asks."""
    caller = sys._getframe(2)
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"


def place_of_function(function: Callable[..., Any]) -> str | None:
    """`file:line` of the `def`, behind decorators that tell what they wrap; None for a callable without code."""
    import inspect  # not at the top: registering a hook imports this module, and must stay cheap

    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def place_in_plugin(error: BaseException, owner: type | None = None) -> str | None:
    """`file:line` of the innermost frame of the plugin's code; None if the error passed through none.

    `owner`: a class of the plugin; then frames of other installed packages are libraries.
    """
    places = [f"{frame.f_code.co_filename}:{line}" for frame, line in _frames(error) if _is_own(frame, owner)]
    return places[-1] if places else None


def correction(error: BaseException, owner: type | None = None) -> str | None:
    """What to correct, where in the plugin; None if neither a frame nor `owner` says which plugin.

    `owner`: the class of the platform or part that was called.
    """
    owner = class_of_plugin(owner) if owner is not None else None
    own: str | None = None
    below: str | None = None
    inherited: str | None = None
    in_base = False
    for frame, line in _frames(error):
        name, module = frame.f_code.co_name, _module_of(frame)
        if _is_own(frame, owner):
            own, below, inherited = f"{name}() at {frame.f_code.co_filename}:{line}", None, None
            continue
        is_hosts, is_bases = _is_in(module, ("sglang",)), _is_in(module, _BASES)
        in_base = is_bases or (in_base and not _is_in(module, _OURS))
        if own is not None and below is None:
            below = name if is_bases else ""
        # SGLang's base class was not written for the device; core's refuses what the plugin hands over.
        if is_hosts or (is_bases and own is None and not name.startswith("_")):
            inherited = _override(frame) or inherited
    if inherited is not None:
        return inherited
    if own is not None:
        return f"correct what {own} hands to {below}()" if below else f"correct what raises in {own}"
    return (
        f"define or correct what the message names in {_class(owner)}"
        if owner is not None and in_base
        else None
    )


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__") or "")


def _is_own(frame: FrameType, owner: type | None) -> bool:
    module = _module_of(frame)
    if not is_plugins(module) or frame.f_code.co_filename.startswith("<frozen"):
        return False
    if owner is None or _INSTALLED.isdisjoint(Path(frame.f_code.co_filename).parts):
        return True
    return _is_in(module, (package_of(owner.__module__),))


def package_of(module: str) -> str:
    """The import package of a module; `sglang_platform` is a namespace of several."""
    top, _, rest = module.partition(".")
    return f"{top}.{rest.partition('.')[0]}" if top == "sglang_platform" else top


def _is_in(module: str, packages: tuple[str, ...]) -> bool:
    return f"{module}.".startswith(tuple(f"{one}." for one in packages))


def _override(frame: FrameType) -> str | None:
    """The method to override, for a frame of a method that a plugin's class inherits."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    owner = frame.f_locals.get(names[0]) if names[:1] in (("self",), ("cls",)) else None
    cls = owner if isinstance(owner, type) else type(owner)
    owners = [klass for klass in cls.__mro__ if code.co_name in vars(klass)]
    own = class_of_plugin(cls)
    if own is None or not owners or any(is_plugins(klass.__module__) for klass in owners):
        return None
    found = next((klass for klass in owners if _code(vars(klass)[code.co_name]) is code), owners[0])
    given = ", ".join(f"{name}={_short(frame.f_locals.get(name))}" for name in names[1:])
    called = f"; it was called with {given}" if given else ""
    return f"override {code.co_name}() in {_class(own)}, which inherits {found.__qualname__}'s{called}"


def _code(value: object) -> object:
    function = getattr(value, "__func__", getattr(value, "fget", value))
    return getattr(function, "__code__", None)


def _class(cls: type) -> str:
    import inspect  # needed on errors only, and `errors` imports this file

    named = f"{cls.__module__}:{cls.__qualname__}"
    try:
        return f"{named} ({inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]})"
    except (OSError, TypeError):  # no source
        return named


def _short(value: object) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')}{list(shape)}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a plugin's own object
        return f"a {type(value).__name__}"
    return text if len(text) <= 40 else f"a {type(value).__name__}"
