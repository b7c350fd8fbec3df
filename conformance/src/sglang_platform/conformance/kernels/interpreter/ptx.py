"""Inline assembly of NVIDIA kernels in the interpreter: the PTX instructions that such kernels use, on numpy arrays.

A 32-bit register holds a block's values two or four at a time (`pack`), as on the device. Which values share a register
is the compiler's choice there, so nothing may depend on it; here it is neighbours. An instruction that is not known
refuses.

Semantics: PTX ISA 8.7, sections on prmt, mov and cvt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl

from sglang_platform.conformance.kernels.interpreter.conversions import decode

__all__ = ["InlineAssembly", "execute"]

_Registers = dict[str, np.ndarray]


def execute(assembly: str, inputs: Sequence[np.ndarray], outputs: int) -> list[np.ndarray]:
    """The output registers `$0`, `$1`, ... as uint32, from the input registers that follow them in number.

    Raises NotImplementedError for an instruction that is not known.
    """
    registers: _Registers = {f"${outputs + at}": value for at, value in enumerate(inputs)}
    for line in assembly.replace("\n", " ").strip().removeprefix("{").removesuffix("}").split(";"):
        statement = line.strip()
        if not statement or statement.startswith(".reg"):
            continue
        name, _, rest = statement.partition(" ")
        operands = [one.strip() for one in re.findall(r"\{[^}]*\}|[^,]+", rest)]
        if name not in _INSTRUCTIONS:
            raise NotImplementedError(f"the interpreter does not know the PTX instruction {statement!r}")
        _INSTRUCTIONS[name](registers, *operands)
    return [registers[f"${at}"] for at in range(outputs)]


def _value(registers: _Registers, operand: str) -> np.ndarray:
    return np.uint32(int(operand, 0)) if re.match(r"[0-9]", operand) else registers[operand]  # type: ignore[return-value]


def _prmt(registers: _Registers, into: str, low: str, high: str, selector: str) -> None:
    """Byte i of the result is byte selector[4 i + 2 : 4 i] of both sources, the second one's being 4 to 7."""
    chosen = int(selector, 0)
    if chosen & 0x8888:
        raise NotImplementedError(f"the interpreter does not replicate signs: prmt {selector}")
    both = _value(registers, low).astype(np.uint64) | (
        _value(registers, high).astype(np.uint64) << np.uint64(32)
    )
    result = np.zeros_like(both)
    for byte in range(4):
        from_byte = (chosen >> (4 * byte)) & 7
        result |= ((both >> np.uint64(8 * from_byte)) & np.uint64(0xFF)) << np.uint64(8 * byte)
    registers[into] = result.astype(np.uint32)


def _halves(registers: _Registers, into: str, source: str) -> None:
    """`mov.b32 {low, high}, source`."""
    low, high = (name.strip() for name in into.strip("{}").split(","))
    value = _value(registers, source)
    registers[low], registers[high] = value & np.uint32(0xFFFF), value >> np.uint32(16)


def _from_e4m3(registers: _Registers, into: str, source: str) -> None:
    """Two codes in 16 bits to two float16 in 32, the first in the lower half of both."""
    codes = registers[source]
    low, high = (
        decode(part.astype(np.uint8), tl.float8e4nv).astype(np.float16).view(np.uint16).astype(np.uint32)
        for part in (codes & np.uint32(0xFF), codes >> np.uint32(8))
    )
    registers[into] = low | (high << np.uint32(16))


_INSTRUCTIONS: dict[str, Callable[..., None]] = {
    "prmt.b32": _prmt,
    "mov.b32": _halves,
    "cvt.rn.f16x2.e4m3x2": _from_e4m3,
}


class InlineAssembly:
    """What the interpreter's builder answers: the blocks that the assembly made."""

    def __init__(self, handle: Any, dtype_of: Callable[[Any], Any], *call: Any) -> None:
        assembly, _constraints, values, types, pure, pack = call
        shape, width = values[0].data.shape, values[0].data.dtype.itemsize
        if not pure or width * pack != 4 or any(dtype_of(one.scalar).itemsize != width for one in types):
            raise NotImplementedError("the interpreter packs values of one width into registers of 32 bits")
        registers = [np.ascontiguousarray(value.data).reshape(-1).view(np.uint32) for value in values]
        made = execute(assembly, registers, len(types))
        self._results = [
            handle(one.view(dtype_of(kind.scalar)).reshape(shape), kind.scalar)
            for one, kind in zip(made, types, strict=True)
        ]

    def get_result(self, number: int) -> Any:
        """The `number`th output."""
        return self._results[number]
