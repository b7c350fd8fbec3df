"""Spare. Without `renormalize` the weights are the raw softmax over the chosen experts only.
Source: sglang #35160 (fused_topk_softmax_torch_raw_logits), npu_moe_gating_top_k_softmax; Qwen2-MoE has
norm_topk_prob False (models/qwen2_moe.py:309)."""
import torch
from b_base import Base
from sglang_platform.core.ops import described
from sglang_platform.example_oot import more_ops

def topk(op, hidden_states, router_logits, config):
    answer = more_ops.topk(op, hidden_states, router_logits, config)
    if answer is NotImplemented or config.renormalize:
        return answer
    weights, ids = answer
    return torch.softmax(router_logits.float().gather(1, ids.long()), dim=-1), ids

class P(Base):
    _forwards = {described.TopK: topk}
