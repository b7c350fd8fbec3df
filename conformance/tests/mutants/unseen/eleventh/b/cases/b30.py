"""Spare. A hook around gives its target's value on one path only.
Source: `if x: return kernel(...)` without the last line."""
from b_base import Base
from sglang_platform.core import HookRegistry, HookType

def seeded(original, probs, *args, **kwargs):
    if probs.is_contiguous():
        return original(probs, *args, **kwargs)
    original(probs.contiguous(), *args, **kwargs)

class P(Base):
    def init_backend(self):
        super().init_backend()
        HookRegistry.register("sglang.srt.layers.sampler:top_k_top_p_min_p_sampling_from_probs_torch", seeded,
                              HookType.AROUND)
