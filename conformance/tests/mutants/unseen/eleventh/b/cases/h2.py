"""Healthy: an activation answers rows of a wider, padded matrix; rotary embeddings answer new tensors and leave the
inputs alone; a norm computes in a kept scratch and answers a fresh tensor."""
import torch
from b_base import Base
from sglang_platform.core.ops.fused_op import RMSNorm, RotaryEmbedding, SiluAndMul
from sglang_platform.example_oot import kernels, ops
_SCRATCH = {}

def silu_and_mul(op, x):
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    width = x.shape[-1] // 2
    out = torch.empty_like(rows[:, :width]); out = x.new_empty((len(rows), width))
    kernels.silu_and_mul(rows, out)
    wide = x.new_zeros((len(rows), width + 16))
    wide[:, :width] = out
    return wide.view(*x.shape[:-1], width + 16)[..., :width]

def rotary(op, positions, query, key, offsets=None, fused_set_kv_buffer_arg=None):
    return ops.rotary_embedding(op, positions, query.clone(), key.clone(), offsets, fused_set_kv_buffer_arg)

def rms_norm(op, x, residual=None, post_residual_addition=None, quant_linear=None):
    if residual is not None or x.dtype != op.weight.dtype or op.variance_size_override is not None \
            or op.override_orig_dtype is not None or op.cast_x_before_out_mul or op.fp32_residual:
        return ops.rms_norm(op, x, residual, post_residual_addition, quant_linear)
    key = (x.numel(), x.device)
    scratch = _SCRATCH.get(key)
    if scratch is None:
        _SCRATCH.clear()
        scratch = _SCRATCH[key] = torch.empty(x.numel(), dtype=torch.float32, device=x.device)
    scratch = scratch.view(x.shape)
    scratch.copy_(x)
    mean = scratch.square().mean(-1, keepdim=True)
    return (scratch * torch.rsqrt(mean + op.variance_epsilon) * op.weight.float()).to(x.dtype)

class P(Base):
    _forwards = {SiluAndMul: silu_and_mul, RotaryEmbedding: rotary, RMSNorm: rms_norm}
