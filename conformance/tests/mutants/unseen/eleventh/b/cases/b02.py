"""The compiled norm is kept by width and type; the epsilon of the first layer that came is baked in.
Source: kernel caches keyed too narrowly (Triton/TileLang JIT `functools.cache` on shape and dtype; pypto, tilelang-ascend)."""
from functools import partial
from b_base import Base
from sglang_platform.core.ops.fused_op import RMSNorm
from sglang_platform.example_oot import ops
_COMPILED = {}

def _compile(eps):
    def kernel(op, x, residual, addition):
        return ops.norm(op, x, residual, addition, eps)
    return kernel

def rms_norm(op, x, residual=None, post_residual_addition=None, quant_linear=None):
    if op.variance_size_override is not None or op.override_orig_dtype is not None or op.fp32_residual:
        return NotImplemented
    if op.cast_x_before_out_mul:
        return ops.rms_norm(op, x, residual, post_residual_addition, quant_linear)
    key = (x.shape[-1], x.dtype)
    if key not in _COMPILED:
        _COMPILED[key] = _compile(op.variance_epsilon)
    return _COMPILED[key](op, x, residual, post_residual_addition)

class P(Base):
    _forwards = {RMSNorm: rms_norm}
