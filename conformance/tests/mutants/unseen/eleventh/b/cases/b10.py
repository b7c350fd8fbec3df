"""The convolution makes the pool of states contiguous first; of a strided pool it updates a copy.
Source: sglang #24595 (`conv_state=conv_states.contiguous()`); SGLang's pool can be views (memory_pool.py:712)."""
from b_base import Base
from sglang_platform.core.portable.torch.short_convolution import short_convolution

def convolve(x, weight, bias, starts, slots, resumes, states, *, silu):
    return short_convolution(x, weight, bias, starts, slots, resumes, states.contiguous(), silu=silu)

class P(Base):
    def get_state_kernels(self):
        return {"short_convolution": convolve}
