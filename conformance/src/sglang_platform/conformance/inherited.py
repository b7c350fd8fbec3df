"""An error raised in a method that a plugin's class has from SGLang: told as the override that is missing.

The file of SGLang, Triton or torch in which it was raised is right as it is; it was not written for this device.
"""

from __future__ import annotations

import traceback
import types
from pathlib import Path

import torch

from sglang_platform import core

__all__ = ["below_core", "inherited_call"]

_CORE = str(Path(core.__file__).parent)
_SUITE = str(Path(__file__).parent)


def inherited_call(error: BaseException) -> str | None:
    """What to override, and with which arguments it was called; None where it was not raised below SGLang's own method.

    The innermost frame of SGLang whose `self` is of a class of somebody else's counts, with no code of theirs below it.
    """
    told = None
    trace = error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] == "sglang":
            told = _missing_override(trace.tb_frame) or told
        elif module.partition(".")[0] not in ("torch", "triton"):
            told = None  # the plugin's own code raised, or this suite's
        trace = trace.tb_next
    return told


def below_core(error: BaseException) -> str | None:
    """What of the plugin's to correct for an error that was raised in core's code; None where it was raised elsewhere.

    It was handed what it cannot take by the plugin's own code, or the platform's class lacks what it asks for.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or not frames[-1].filename.startswith(_CORE):
        return None
    others = (_CORE, _SUITE, str(Path(torch.__file__).parent))
    own = [at for at, frame in enumerate(frames) if not frame.filename.startswith(others)]
    if own:
        caller, called = frames[own[-1]], frames[own[-1] + 1]
        return f"correct what {caller.name}() at {caller.filename}:{caller.lineno} hands to {called.name}()"
    if isinstance(error, NotImplementedError):
        return "define in the platform's own class what the message names"
    return None


def _missing_override(frame: types.FrameType) -> str | None:
    code = frame.f_code
    first = code.co_varnames[:1]
    owner = frame.f_locals.get("self") if first == ("self",) else None
    cls = type(owner)
    if owner is None or cls.__module__.partition(".")[0] in ("sglang", "torch", "builtins"):
        return None
    found = next((klass for klass in cls.__mro__ if code.co_name in vars(klass)), None)
    if found is None or found.__module__.partition(".")[0] != "sglang":
        return None
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    given = ", ".join(f"{name}={_short(frame.f_locals.get(name))}" for name in names)
    return (
        f"class {cls.__qualname__} does not override {code.co_name}, and has {found.__qualname__}'s; "
        f"SGLang calls it with {given or 'no arguments'}: override it in {cls.__module__}"
    )


def _short(value: object) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')}{list(shape)}"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"
