"""Corrects the interpreter's arithmetic on bfloat16 and 8-bit floats.

Stock Triton 3.6 and 3.7.1 add, multiply and `tl.dot` the raw bits as integers, truncate float32 to bfloat16 instead of
rounding, and convert float32 to 8-bit formats wrongly (1.97 to 1.0, 500 to 256, NaN to 384). Here every operation on
such values decodes to float32, computes, and rounds once, which is what the hardware's conversions and torch do.
Inline assembly, which the stock interpreter refuses, is executed where `ptx` knows its instructions.
What is not corrected refuses instead of answering wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from sglang_platform.conformance.kernels.interpreter.conversions import decode, encode, is_emulated
from sglang_platform.conformance.kernels.interpreter.ptx import InlineAssembly

__all__ = ["install"]


def install() -> None:
    """Idempotent; lasts for the process."""
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    if getattr(builder, "_repaired", False):
        return
    handle = interpreter.TensorHandle
    np_dtype = interpreter._get_np_dtype

    def wrap(values: np.ndarray, dtype: Any) -> Any:
        scalar = dtype.scalar
        if is_emulated(scalar):
            return handle(encode(values, scalar), scalar)
        return handle(values.astype(np_dtype(scalar), copy=False), scalar)

    def cast(self: Any, src: Any, dst_type: Any, *_: Any) -> Any:
        if src.dtype.scalar == dst_type.scalar:
            return handle(src.data, dst_type.scalar)
        with np.errstate(invalid="ignore", over="ignore"):
            return wrap(decode(src.data, src.dtype), dst_type)

    def convert(self: Any, src: Any, dst_type: Any, rounding_mode: Any = None) -> Any:
        nearest = (None, interpreter._ir.ROUNDING_MODE.RTNE)
        if rounding_mode not in nearest:
            raise NotImplementedError("the interpreter rounds to nearest only")
        return cast(self, src, dst_type)

    binary = builder.binary_op
    ternary = builder.ternary_op
    unary = builder.unary_op

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Callable[..., np.ndarray]) -> Any:
        if not is_emulated(lhs.dtype):
            return binary(self, lhs, rhs, op)
        with np.errstate(all="ignore"):
            result = op(decode(lhs.data, lhs.dtype), decode(rhs.data, rhs.dtype))
        if result.dtype == np.bool_:
            return handle(result, tl.int1)
        return wrap(result, lhs.dtype)

    def ternary_op(self: Any, lhs: Any, rhs: Any, other: Any, op: Callable[..., np.ndarray]) -> Any:
        if not is_emulated(other.dtype):
            return ternary(self, lhs, rhs, other, op)
        if op is np.where:
            return handle(op(lhs.data, rhs.data, other.data), other.dtype.scalar)
        return wrap(op(*(decode(x.data, x.dtype) for x in (lhs, rhs, other))), other.dtype)

    def unary_op(self: Any, arg: Any, op: Callable[..., np.ndarray]) -> Any:
        if not is_emulated(arg.dtype):
            return unary(self, arg, op)
        return wrap(op(decode(arg.data, arg.dtype)), arg.dtype)

    def create_rsqrt(self: Any, arg: Any) -> Any:
        return wrap(1 / np.sqrt(decode(arg.data, arg.dtype)), arg.dtype)

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        # One rounding, as a fused multiply-add has: the product of two float32 is exact in float64.
        x_data, y_data, z_data = (decode(v.data, v.dtype) for v in (x, y, z))
        exact = np.float64 if z_data.dtype != np.float64 else np.longdouble
        return wrap((x_data.astype(exact) * y_data + z_data).astype(z_data.dtype), z.dtype)

    def create_dot(self: Any, a: Any, b: Any, d: Any, *_: Any) -> Any:
        accumulate = d.data.dtype
        a_data, b_data = (decode(x.data, x.dtype).astype(accumulate, copy=False) for x in (a, b))
        return handle(np.matmul(a_data, b_data, dtype=accumulate) + d.data, d.dtype.scalar)

    def get_bf16(self: Any, value: float) -> Any:
        return wrap(np.array([value], dtype=np.float32), tl.bfloat16)

    def create_atomic_rmw(self: Any, rmw: Any, ptr: Any, val: Any, *rest: Any) -> Any:
        if is_emulated(val.dtype):
            raise NotImplementedError(f"the interpreter has no atomic operation on {val.dtype.scalar}")
        return atomic(self, rmw, ptr, val, *rest)

    def create_inline_asm(self: Any, *call: Any) -> Any:
        return InlineAssembly(handle, np_dtype, *call)

    atomic = builder.create_atomic_rmw
    for name, function in {
        "cast_impl": cast,
        "create_fp_to_fp": convert,
        "binary_op": binary_op,
        "ternary_op": ternary_op,
        "unary_op": unary_op,
        "create_rsqrt": create_rsqrt,
        "create_fma": create_fma,
        "create_dot": create_dot,
        "get_bf16": get_bf16,
        "create_atomic_rmw": create_atomic_rmw,
        "create_inline_asm": create_inline_asm,
    }.items():
        setattr(builder, name, function)
    _repair_reductions(interpreter)
    builder._repaired = True


def _repair_reductions(interpreter: Any) -> None:
    """Reductions and scans over emulated types refuse: their result depends on the order, which the device picks."""
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        stock = kind.apply_impl

        def apply_impl(self: Any, inputs: Any, stock: Callable[..., Any] = stock) -> Any:
            for value in inputs if isinstance(inputs, tuple) else (inputs,):
                if is_emulated(value.dtype):
                    raise NotImplementedError(f"reduce {value.dtype.scalar} in float32: cast it first")
            return stock(self, inputs)

        kind.apply_impl = apply_impl
