"""Whose error it is that came out of a check: the platform's, or the suite's own.

An error is the platform's where its innermost frames are of the platform's code, or of core's, SGLang's or torch's that
the platform's code called; where the platform's code called back into the suite (a dispatch mode, a hook, a model) what
raises there; where the suite called something of the platform's that does not take the call, or asked its object for
what it does not have; where a device raised it in native code, which leaves no frame; and where it tells of SGLang's
processes on the platform. Everything else is a mistake of the suite's, and no word on the platform.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import re
import sys
import sysconfig
import traceback
import types
from operator import attrgetter
from pathlib import Path
from typing import Any

from sglang_platform.core.correction import class_of_plugin, is_plugins, place_in_plugin, place_of_function

__all__ = ["is_the_suites", "may_come_late", "place_in_text", "place_of_failure", "what_to_report"]

_OWN = str(Path(__file__).parent)
_REFERENCE = str(Path(__file__).parent / "reference")
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_PACKAGES = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
_NEUTRAL = ("torch", "numpy", "packaging", "importlib", "hypothesis")
"""Packages whose code the suite calls itself."""

_NOT_TAKEN = re.compile(r"^([\w.<>]+)\(\) (got an unexpected|got multiple values|missing \d|takes )")
_OF_A_DEVICE = (RuntimeError, NotImplementedError, MemoryError, OSError, IndexError)
_OF_PYTHON = re.compile(r"^(list|tuple|string|range|deque|array|bytearray|pop)\b.* (index|from)\b")
"""What Python says of an index; a device has words of its own."""


def is_the_suites(error: BaseException, device_type: str | None) -> bool:
    """Whether `error` was raised by the suite's own code. `device_type`: of the platform's device, None: not known."""
    if not isinstance(error, Exception):
        return False
    frames = list(traceback.walk_tb(error.__traceback__))
    last = max((at for at, (frame, _) in enumerate(frames) if _is_the_suites(frame)), default=-1)
    if last < 0 or any(not _is_neutral(frame) for frame, _ in frames[last + 1 :]):
        return False
    if may_come_late(error, device_type):
        return False
    first = next(at for at, (frame, _) in enumerate(frames) if _is_the_suites(frame))
    if any(not _is_the_suites(frame) and not _is_neutral(frame) for frame, _ in frames[first:last]):
        of_a_module = isinstance(error, AttributeError) and isinstance(error.obj, types.ModuleType)
        return isinstance(error, NameError | ImportError) or of_a_module
    if isinstance(error, NotImplementedError) or getattr(error, "is_the_platforms", False):
        return False
    if isinstance(error, AttributeError) and error.name is not None:
        return _is_of_the_suite_or_python(error.obj)
    taken = _NOT_TAKEN.match(str(error)) if isinstance(error, TypeError) else None
    return taken is None or _is_a_function_of_the_suite(taken[1])


def may_come_late(error: BaseException, device_type: str | None) -> bool:
    """Whether a device raised it in native code: one that runs behind the host does so at a later call."""
    frames = traceback.extract_tb(error.__traceback__)
    raised_in_python = bool(frames) and (frames[-1].line or "").startswith("raise")
    return (
        device_type not in ("cpu", None)
        and isinstance(error, _OF_A_DEVICE)
        and not raised_in_python
        and not _OF_PYTHON.match(str(error))
    )


def place_of_failure(error: BaseException, part: Any, platform: type | None) -> str | None:
    """`file:line` of the plugin's code that a failure is of: the innermost frame of what was raised; of a wrong answer
    the method of the `part` that the words name, else its class or function. `platform`: its class."""
    for raised in (error, error.__cause__):
        if raised is not None and (place := place_in_plugin(raised, platform)):
            return place
    words = f"{getattr(error, 'fix', None) or ''} {error}"
    named = (_object_named(name) for name in re.findall(r"\w+(?:\.\w+)+", words))
    if place := next((place_of_function(one) for one in named if inspect.isfunction(one)), None):
        return place
    for owner in (part, platform):
        cls = class_of_plugin(owner) if isinstance(owner, type) else None
        if cls is None:
            if isinstance(owner, type) or owner is None or not is_plugins(getattr(owner, "__module__", "")):
                continue
            return place_of_function(owner)
        for method in (getattr(cls, name, None) for name in re.findall(r"(\w+)\(", words)):
            if inspect.isfunction(method) and is_plugins(method.__module__):
                return place_of_function(method)
        with contextlib.suppress(OSError, TypeError):  # no source
            return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    return None


def _object_named(name: str) -> Any:
    """What a dotted name is in a module of the plugin's that is imported; None where it is nothing."""
    module, _, rest = name.rpartition(".")
    while module and module not in sys.modules:
        module, _, first = module.rpartition(".")
        rest = f"{first}.{rest}"
    with contextlib.suppress(AttributeError):
        return attrgetter(rest)(sys.modules[module]) if module and is_plugins(module) else None
    return None


def place_in_text(trace: str) -> str | None:
    """The same from the last words of a process that died: its innermost frame that may be the plugin's."""
    frames = [
        f"{path}:{line}"
        for path, line in re.findall(r'File "([^"]+)", line (\d+)', trace)
        if not path.startswith((_OWN, "<", *_LIBRARIES)) or path.startswith((_REFERENCE, *_PACKAGES))
        if not path.startswith(tuple(f"{root}/{name}/" for root in _PACKAGES for name in _NEUTRAL))
    ]
    return (frames[0] if "most recent call first" in trace else frames[-1]) if frames else None


def what_to_report(error: BaseException) -> str:
    """One text for an issue: what was raised, and where in the suite."""
    frames = traceback.extract_tb(error.__traceback__)
    where = next((frame for frame in reversed(frames) if _in_suite(frame.filename)), None)
    place = f" at {Path(where.filename).name}:{where.lineno}, in {where.name}()" if where else ""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (
        f"the suite failed here, not the platform: {said}{place}. Nothing is known of the platform by this check. Tell"
        " it to the authors of sglang-platform-conformance, with this text, the trace and the command below it"
    )


def _in_suite(path: str) -> bool:
    return path.startswith(_OWN) and not path.startswith(_REFERENCE)


def _is_the_suites(frame: types.FrameType) -> bool:
    return _in_suite(frame.f_code.co_filename)


def _is_neutral(frame: types.FrameType) -> bool:
    path = frame.f_code.co_filename
    if path.startswith("<frozen "):
        return True
    if path.startswith(_PACKAGES):
        return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _NEUTRAL
    return path.startswith(_LIBRARIES)


def _is_of_the_suite_or_python(thing: object) -> bool:
    """An object that is not the platform's: a module of the platform, or an object of its classes, is."""
    cls = thing if isinstance(thing, type) else type(thing)
    name = thing.__name__ if isinstance(thing, types.ModuleType) else cls.__module__
    own = name.startswith("sglang_platform.conformance") and not name.startswith(
        "sglang_platform.conformance.reference"
    )
    return own or name.partition(".")[0] in (
        "builtins",
        "types",
        "torch",
        "numpy",
        "collections",
        "functools",
    )


def _is_a_function_of_the_suite(qualified: str) -> bool:
    """Whether the function that refused its arguments is one of the suite's. Where the platform has one of that name
    too, as ops have the names of their checks, it is taken for the platform's."""
    of_that_name = [
        _in_suite(one.__code__.co_filename)
        for one in gc.get_objects()
        if isinstance(one, types.FunctionType) and one.__qualname__ == qualified
    ]
    return bool(of_that_name) and all(of_that_name)
