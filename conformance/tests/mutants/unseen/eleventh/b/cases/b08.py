"""The norm's grid has at most 65,535 rows; the rows behind are not written. Per-head norms have tokens times heads rows
(apply_qk_norm, srt/models/utils.py:478: 8,192 tokens of a chunk times 32 heads).
Source: grid.y limit of CUDA-like launches; mojo_opset #444 (grid allocation), sgl-kernel-npu #235 (block limits)."""
import torch
from b_base import Base
from sglang_platform.core.ops.fused_op import RMSNorm
from sglang_platform.example_oot import kernels, ops
LIMIT = 65535

def rms_norm(op, x, residual=None, post_residual_addition=None, quant_linear=None):
    rows = x.numel() // x.shape[-1]
    if residual is not None or rows <= LIMIT or x.dtype != op.weight.dtype or op.variance_size_override is not None \
            or op.override_orig_dtype is not None or op.cast_x_before_out_mul:
        return ops.rms_norm(op, x, residual, post_residual_addition, quant_linear)
    flat = x.reshape(rows, x.shape[-1]).contiguous()
    out = torch.empty_like(flat)
    kernels.rms_norm(flat[:LIMIT], op.weight, op.variance_epsilon, out[:LIMIT], 0.0)
    return out.view(x.shape)

class P(Base):
    _forwards = {RMSNorm: rms_norm}
