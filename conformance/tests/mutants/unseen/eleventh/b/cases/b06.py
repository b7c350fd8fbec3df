"""gpt-oss experts: the clamped up half is computed and not used.
Source: vllm-ascend #9897 review ("the clamped gate and up tensors are never reused"), sglang #39939."""
import torch
from b_base import Base
from sglang_platform.example_oot import biased_experts

def _swiglu(x, alpha, limit):
    gate, up = x[..., ::2].clamp(max=limit), x[..., 1::2]
    up.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)

biased_experts._swiglu = _swiglu

class P(Base):
    pass
