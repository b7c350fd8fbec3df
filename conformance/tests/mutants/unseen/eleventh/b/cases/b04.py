"""The gating kernel gives each of its 256 lanes one expert: of 512 experts the upper half is never chosen.
Source: kekzl/imp #2056 (topk_gating_kernel, 512 experts); Qwen3-Next has 512 (srt/configs/qwen3_next.py:150)."""
import torch
from b_base import Base
from sglang_platform.core.ops import described
from sglang_platform.example_oot import more_ops

def topk(op, hidden_states, router_logits, config):
    if router_logits.shape[-1] <= 256:
        return more_ops.topk(op, hidden_states, router_logits, config)
    if config.scoring_func not in (None, "softmax") or config.use_grouped_topk or config.correction_bias is not None \
            or config.custom_routing_function is not None:
        return NotImplemented
    weights, ids = torch.softmax(router_logits.float(), dim=-1)[:, :256].topk(config.top_k, dim=-1)
    if config.renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights, ids.to(torch.int32)

class P(Base):
    _forwards = {described.TopK: topk}
