"""One call on the device and on the CPU: what came of it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import torch
from recipes import Call
from torch_calls import overload

TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 2e-2, torch.float32: 2e-4, torch.float64: 1e-7}


def run(call: Call, where: str) -> tuple[list[Any], list[Any]]:
    """The results of the call on `where`, and its tensors after it, all in host memory."""
    positional, named = call.arguments(where)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = overload(call.name)(*positional, **named)
    if where == "cpu":
        result = _what_was_written(call, result, positional, named)
    else:
        _finish()
    return _flat(result), _flat([positional, list(named.values())])


def _what_was_written(call: Call, result: Any, positional: list[Any], named: dict[str, Any]) -> Any:
    """The CPU's `result` as the schema has it: for what was written, that argument. Some kernels (`_add_relu.out`)
    return the tensor that they computed in, which has the inputs' type."""
    schema = overload(call.name)._schema
    if len(schema.returns) != 1 or not isinstance(result, torch.Tensor):
        return result
    alias = schema.returns[0].alias_info
    if alias is None or not alias.is_write:
        return result
    values = dict(zip((argument.name for argument in schema.arguments), positional, strict=False)) | named
    for argument in schema.arguments:
        if argument.alias_info is not None and argument.alias_info.before_set == alias.before_set:
            return values[argument.name]
    return result


def _finish() -> None:
    """Wait for all devices; raises what a task raised."""
    for index in range(torch.accelerator.device_count()):
        torch.accelerator.synchronize(index)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value.detach().cpu() if value.device.type not in ("cpu", "meta") else value.detach().clone()]
    if isinstance(value, (list, tuple)):
        return [one for item in value for one in _flat(item)]
    return [value] if isinstance(value, (int, float, bool)) else []


def difference(got: list[Any], expected: list[Any]) -> str | None:
    """How the two differ, or None."""
    if len(got) != len(expected):
        return f"{len(got)} values instead of {len(expected)}"
    for one, other in zip(got, expected, strict=True):
        if isinstance(other, torch.Tensor) and isinstance(one, torch.Tensor):
            if other.is_meta or one.is_meta:
                if one.is_meta != other.is_meta:
                    return f"on {one.device} instead of {other.device}"
                continue
            if (one.dtype, one.shape, one.layout) != (other.dtype, other.shape, other.layout):
                return f"{one.dtype} {tuple(one.shape)} instead of {other.dtype} {tuple(other.shape)}"
            if one.layout != torch.strided or one.is_quantized:
                continue
            told = _values_differ(one, other)
            if told:
                return told
        elif one != other and not (one != one and other != other):  # noqa: PLR0124  # NaN is NaN
            return f"{one!r} instead of {other!r}"
    return None


def _values_differ(one: torch.Tensor, other: torch.Tensor) -> str | None:
    if not (one.dtype.is_floating_point or one.dtype.is_complex):
        values = one.tolist(), other.tolist()
        return None if values[0] == values[1] else f"{values[0]} instead of {values[1]}"[:300]
    wide = torch.complex128 if one.dtype.is_complex else torch.float64
    tolerance = TOLERANCE.get(one.dtype, 6e-2 if one.dtype.itemsize == 1 else 2e-4)
    try:
        torch.testing.assert_close(
            one.to(wide), other.to(wide), rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return None


def judge(call: Call, device: str, phase: Callable[[str], None]) -> tuple[str, str]:
    """`(verdict, why)`.

    `same`: the CPU gives the same values; `refused`: both raise; `apart`: not comparable (tensors of several places,
    random or unwritten results); `wrong`: other values than the CPU's; `stricter`: raised here, taken there; `laxer`:
    the reverse.
    """
    outcome = _try(call, device, phase)
    if call.places() - {"here", "cpu", "meta"}:
        return "apart", ""
    if isinstance(outcome, Exception) and isinstance(outcome, torch.OutOfMemoryError):
        return "refused", ""
    expected = _try(call, "cpu", phase)
    if isinstance(outcome, Exception):
        if isinstance(expected, Exception):
            return "refused", ""
        if call.places() & {"cpu", "meta"}:
            return "apart", ""
        return "stricter", f"{type(outcome).__name__}: {str(outcome)[:300]}"
    if isinstance(expected, Exception):
        return "laxer", f"{type(expected).__name__}: {str(expected)[:300]}"
    if not call.compare:
        return "apart", ""
    told = difference([*outcome[0], *outcome[1]], [*expected[0], *expected[1]])
    if told and _cpu_differs_from_itself(call, expected, phase):
        return "apart", ""
    return ("wrong", told) if told else ("same", "")


def _cpu_differs_from_itself(
    call: Call, first: tuple[list[Any], list[Any]], phase: Callable[[str], None]
) -> bool:
    """Whether the CPU's result holds what lay in its memory before: some kernels leave parts of it unwritten."""
    for rest in (77, 0, -1):
        for size in (16, 64, 256, 1024, 4096, 16384):
            torch.full((size,), rest, dtype=torch.int8)  # given back at once, and taken by the next call
        again = _try(call, "cpu", phase)
        if isinstance(again, Exception) or difference([*again[0], *again[1]], [*first[0], *first[1]]):
            return True
    return _cpu_differs_over_marked_memory(call, first, phase)


def _cpu_differs_over_marked_memory(
    call: Call, first: tuple[list[Any], list[Any]], phase: Callable[[str], None]
) -> bool:
    """The same, where memory that is given back is not taken again soon, or is filled with one byte, as under
    AddressSanitizer: torch itself marks what it hands out (NaN, or the largest number)."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        again = _try(call, "cpu", phase)
    finally:
        torch.use_deterministic_algorithms(False)
    return not isinstance(again, Exception) and bool(
        difference([*again[0], *again[1]], [*first[0], *first[1]])
    )


def _try(call: Call, where: str, phase: Callable[[str], None]) -> tuple[list[Any], list[Any]] | Exception:
    phase(where)
    try:
        return run(call, where)
    except Exception as error:  # noqa: BLE001 - every Python exception is an answer
        if where != "cpu":
            with contextlib.suppress(Exception):  # what its tasks raise is no other call's
                _finish()
        return error
