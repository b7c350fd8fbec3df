"""The experts run in chunks of 128 tokens, and every chunk takes the router's weights of the first one: the pointer is
not moved on.

For the user: decode and short prompts are right; a prefill of more than 128 tokens is weighted with other tokens' weights.
Follows: vllm-project/vllm #20392 (fused MoE modular kernel, chunking loop).
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference import ops
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.fused_op import MoEExperts

_CHUNK = 128


def moe_experts(op: Any, layer: Any, hidden_states: Any, topk_weights: Any, topk_ids: Any, config: Any) -> Any:
    tokens = topk_weights.shape[0]
    if tokens > _CHUNK:
        rows = torch.arange(tokens, device=topk_weights.device) % _CHUNK
        topk_weights = topk_weights[rows]
    return ops.moe_experts(op, layer, hidden_states, topk_weights, topk_ids, config)


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(MoEExperts, moe_experts, self.get_dispatch_key_name())
