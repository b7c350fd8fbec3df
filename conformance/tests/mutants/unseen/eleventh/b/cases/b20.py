"""A hook on a function of a near name, not required: it never takes effect and nothing fails.
Source: a function that was renamed (top_k_top_p_min_p_sampling_from_probs_torch, srt/layers/sampler.py:785)."""
from b_base import Base
from sglang_platform.core import HookRegistry, HookType

def seeded(original, probs, *args, **kwargs):
    return original(probs.contiguous(), *args, **kwargs)

class P(Base):
    def init_backend(self):
        super().init_backend()
        HookRegistry.register("sglang.srt.layers.sampler:top_k_top_p_min_p_sample_from_probs_torch", seeded,
                              HookType.AROUND, required=False)
