"""A norm without a residual is run by the fused kernel on a kept buffer of zeros, into which that kernel writes.
Source: vLLM #41972 (AITER all-reduce + RMSNorm, no-residual pattern fed with an uninitialised residual)."""
import torch
from b_base import Base
from sglang_platform.core.ops.fused_op import RMSNorm
from sglang_platform.example_oot import kernels, ops
_ZEROS = {}

def rms_norm(op, x, residual=None, post_residual_addition=None, quant_linear=None):
    plain = residual is None and x.dim() == 2 and x.dtype == op.weight.dtype and op.variance_size_override is None \
        and op.override_orig_dtype is None and not op.fp32_residual and not op.cast_x_before_out_mul
    if not plain:
        return ops.rms_norm(op, x, residual, post_residual_addition, quant_linear)
    key = (x.shape, x.dtype, x.device)
    zero = _ZEROS.get(key)
    if zero is None:
        zero = _ZEROS[key] = torch.zeros_like(x, memory_format=torch.contiguous_format)
    y = x.clone(memory_format=torch.contiguous_format)
    kernels.fused_add_rms_norm(y, zero, op.weight, op.variance_epsilon, 0.0)
    return y

class P(Base):
    _forwards = {RMSNorm: rms_norm}
