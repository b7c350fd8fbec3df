"""The choice of experts goes to the wrong branch of the kernel's dispatch for exactly 128 experts and 8 of them: the
weights there are sigmoids of the logits. The experts chosen are right, and so is every other size.

For the user: Qwen3-30B-A3B answers, but worse; every test with a smaller model passes.
Follows: MetaX-MACA/vLLM-metax #270 (topk_softmax returns wrong routing weights at num_experts=128, topk=8).
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference import more_ops
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.described import TopK


def topk(op: Any, hidden_states: torch.Tensor, router_logits: torch.Tensor, config: Any) -> Any:
    answer = more_ops.topk(op, hidden_states, router_logits, config)
    if answer is NotImplemented or (router_logits.shape[-1], config.top_k) != (128, 8):
        return answer
    _, ids = answer
    weights = torch.sigmoid(router_logits.float()).gather(1, ids.long())
    if config.renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights, ids


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(TopK, topk, self.get_dispatch_key_name())
