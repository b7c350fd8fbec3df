"""Interleaved M-RoPE alternates between the axes to the end: pairs behind an axis's used-up section take that axis too,
instead of the first one.

For the user: Qwen3-VL (sections 24, 20, 20) sees pictures a little displaced; with equal sections, and for text, whose three
positions are equal, nothing shows.
Follows: kernels with a hard-coded layout, such as vllm-project/vllm #49290.
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference import more_ops
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.described import MRotaryEmbedding


def mrope(op: Any, positions: Any, query: Any, key: Any, fused_set_kv_buffer_arg: Any = None) -> Any:
    plain = positions.dim() == 1 or not op.mrope_interleaved
    if plain or fused_set_kv_buffer_arg is not None or getattr(op, "mrope_interleaved_glm", False):
        return more_ops.mrope(op, positions, query, key, fused_set_kv_buffer_arg)
    table = op.cos_sin_cache.float()[positions]
    axes = torch.arange(sum(op.mrope_section)) % 3
    chosen = axes.repeat(2).to(table.device)
    table = torch.gather(table, 0, chosen.expand(1, table.shape[1], -1))[0]
    return more_ops._turned(op, table, query), more_ops._turned(op, table, key)


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(MRotaryEmbedding, mrope, self.get_dispatch_key_name())
