"""The prefill of gated delta nets carries the state over a short last chunk without its decay: the kernel reads the
chunk's cumulated gate at place 63, where a chunk of fewer tokens has a zero. Outputs of the prefill are right; the state
that it leaves is not, where a prompt has more than 64 tokens and no whole number of 64.

For the user: Qwen3-Next answers from a wrong memory after most prompts; the log probabilities of the prompt are right.
Follows: gittensor-ai-lab/sparkinfer #604 and huggingface/transformers #46873.
level: kernels
"""

from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.portable.torch.gated_delta import CHUNK
from sglang_platform.core.portable.torch.gated_delta import gated_delta_rule as right


def gated_delta_rule(
    q: Any, k: Any, v: Any, log_decay: Any, step: Any, starts: Any, slots: Any, states: Any, *, scale: float
) -> Any:
    y, before = right(q, k, v, log_decay, step, starts, slots, states, scale=scale)
    if starts is None:
        return y, before
    bounds, chunk = starts.tolist(), 0
    for begin, end, slot in zip(bounds, bounds[1:], slots.tolist(), strict=False):
        count = -(-(end - begin) // CHUNK)
        rest = (end - begin) % CHUNK
        chunk += count
        if slot < 0 or count < 2 or rest == 0:
            continue
        decay = log_decay[end - rest : end].float().sum(0).exp()[:, None, None]
        kept = states[slot].float() + (1 - decay) * before[chunk - 1]
        states[slot] = kept.to(states.dtype)
    return y, before


class Platform(ReferencePlatform):
    def get_state_kernels(self) -> dict[str, Any]:
        return {"gated_delta_rule": gated_delta_rule}
