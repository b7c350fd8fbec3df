"""An error raised in a method that a plugin's class has from SGLang: told as the override that is missing.

The file of SGLang, Triton or torch in which it was raised is right as it is; it was not written for this device.
"""

from __future__ import annotations

import types

__all__ = ["inherited_call"]


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
