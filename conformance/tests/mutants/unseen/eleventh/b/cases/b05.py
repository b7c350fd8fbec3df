"""Experts with a fixed capacity (static shapes): rows beyond twice the average of an expert are dropped.
Source: static-shape MoE of HPU and TPU backends (capacity factor); drops on skewed routing."""
import torch
from b_base import Base
from sglang_platform.core.ops.fused_op import MoEExperts
from sglang_platform.example_oot import ops

def experts(op, layer, hidden_states, topk_weights, topk_ids, config):
    count = len(layer.w13_weight)
    capacity = max(4, -(-2 * topk_ids.numel() // count))
    flat = topk_ids.flatten().long()
    marks = torch.nn.functional.one_hot(flat.clamp(min=0, max=count - 1), count)
    place = (marks.cumsum(0) - 1).gather(1, flat.clamp(min=0, max=count - 1)[:, None])[:, 0]
    kept = torch.where(place < capacity, flat, torch.full_like(flat, -1)).view_as(topk_ids).to(topk_ids.dtype)
    return ops.moe_experts(op, layer, hidden_states, topk_weights, kept, config)

class P(Base):
    _forwards = {MoEExperts: experts}
