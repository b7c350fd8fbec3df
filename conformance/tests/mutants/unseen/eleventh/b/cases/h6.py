"""Healthy: callables are partials, bound methods and objects with __call__."""
from functools import partial
from b_base import Base
from sglang_platform.core.ops.fused_op import RMSNorm, SiluAndMul
from sglang_platform.core.portable.torch.short_convolution import short_convolution
from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_
from sglang_platform.example_oot import ops
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend

def norm(how, op, x, residual=None, post_residual_addition=None, quant_linear=None):
    return ops.rms_norm(op, x, residual, post_residual_addition, quant_linear)

class Silu:
    def __call__(self, op, x):
        return ops.silu_and_mul(op, x)

def convolve(x, weight, bias, starts, slots, resumes, states, *, silu, how):
    return short_convolution(x, weight, bias, starts, slots, resumes, states, silu=silu)

class P(Base):
    def init_backend(self):
        super().init_backend()
        from sglang_platform.core import FusedOp
        FusedOp.register_oot_forward(RMSNorm, partial(norm, "fast"), "example_oot")
        FusedOp.register_oot_forward(SiluAndMul, Silu(), "example_oot")
    def get_attention_backends(self):
        return {"example_oot": partial(ExampleOOTAttentionBackend)}
    def get_token_bitmask_fn(self):
        return partial(apply_token_bitmask_)
    def get_state_kernels(self):
        return {"short_convolution": partial(convolve, how=1)}
