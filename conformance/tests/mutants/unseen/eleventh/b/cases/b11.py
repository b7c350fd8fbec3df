"""The recurrent state is written in the type of the inputs, and not in that of the pool.
Source: ollama #15865 (gated_delta_step writes InT instead of StT)."""
import torch
from b_base import Base
from sglang_platform.core.portable.torch.gated_delta import gated_delta_rule
from sglang_platform.core.portable.torch.state_slots import owned_slots

def rule(q, k, v, log_decay, step, starts, slots, states, *, scale):
    answer = gated_delta_rule(q, k, v, log_decay, step, starts, slots, states, scale=scale)
    owned = owned_slots(slots)
    written = states[owned.slots]
    owned.write(states, written, written.to(v.dtype))
    return answer

class P(Base):
    def get_state_kernels(self):
        return {"gated_delta_rule": rule}
