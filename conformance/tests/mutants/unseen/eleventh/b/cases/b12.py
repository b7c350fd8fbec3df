"""Key heads are tiled over the value heads (0 1 0 1) and not repeated (0 0 1 1).
Source: `repeat` for `repeat_interleave`, the usual slip of gated-delta ports (xllm #1262 review thread)."""
from b_base import Base
from sglang_platform.core.portable.torch.gated_delta import gated_delta_rule

def rule(q, k, v, log_decay, step, starts, slots, states, *, scale):
    group = v.shape[1] // q.shape[1]
    return gated_delta_rule(q.repeat(1, group, 1), k.repeat(1, group, 1), v, log_decay, step, starts, slots, states,
                            scale=scale)

class P(Base):
    def get_state_kernels(self):
        return {"gated_delta_rule": rule}
