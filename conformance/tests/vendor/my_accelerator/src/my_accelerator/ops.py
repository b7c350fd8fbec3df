"""The operators of a transformer block, as the card computes them."""

import torch

from sglang_platform.core import FusedOp
from sglang_platform.core.ops.fused_op import RMSNorm, SiluAndMul


def register(key):
    FusedOp.register_oot_forward(RMSNorm, rms_norm, key)
    FusedOp.register_oot_forward(SiluAndMul, silu_and_mul, key)


def rms_norm(op, x, residual=None, post_residual_addition=None, quant_linear=None):
    special = (
        op.variance_size_override or op.override_orig_dtype or op.fp32_residual or op.cast_x_before_out_mul
    )
    if special or post_residual_addition is not None or quant_linear is not None:
        return NotImplemented
    if residual is not None:
        x = residual = (x.float() + residual.float()).to(x.dtype)
    wide = x.float()
    size = wide.pow(2).mean(-1, keepdim=True).sqrt() + op.variance_epsilon
    y = (wide / size * op.weight.float()).to(x.dtype)
    return y if residual is None else (y, residual)


def silu_and_mul(op, x):
    gate, up = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up
