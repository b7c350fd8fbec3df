"""The hook is registered in the first process only: the schedulers, which SGLang spawns, run without it.
Source: `if current_process().name == "MainProcess"` guards copied from training scripts."""
import multiprocessing
from b_base import Base
from sglang_platform.core import HookRegistry, HookType

def seeded(original, probs, *args, **kwargs):
    return original(probs.contiguous(), *args, **kwargs)

class P(Base):
    def init_backend(self):
        super().init_backend()
        if multiprocessing.parent_process() is None:
            HookRegistry.register("sglang.srt.layers.sampler:top_k_top_p_min_p_sampling_from_probs_torch", seeded,
                                  HookType.AROUND)
