"""Forwards of fused ops; core carries them to SGLang's op of that name."""

from sglang_platform.core import counter

from . import kernels

_calls = counter("ember.fused_ops.calls")


def rms_norm(op, x, residual=None, post_residual_addition=None, **more):
    if post_residual_addition is not None or more:
        return NotImplemented
    _calls.add()
    if residual is None:
        return kernels.rms_norm(x, op.weight, op.variance_epsilon)
    total = x + residual
    return kernels.rms_norm(total, op.weight, op.variance_epsilon), total


def silu_and_mul(op, x):
    _calls.add()
    return kernels.silu_and_mul(x)
