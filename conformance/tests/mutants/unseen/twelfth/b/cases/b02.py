"""Partial rotary embedding whose width is no power of two also turns the columns behind it: the kernel's block is the
next power of two, and the masked cosines and sines read as zero there, so those columns become zero.

For the user: GPT-NeoX-20B (24 of 96), Phi-4-mini (96 of 128) and their kin lose part of every query and key head.
Follows: sgl-project/sglang #35096 (apply_rotary_emb_flat_kernel rotates and overwrites the columns past rope_dim).
level: kernels
"""

from typing import Any

from sglang_platform.conformance.reference import ops
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.fused_op import RotaryEmbedding


def _spilled(op: Any, x: Any) -> Any:
    block = 1 << (op.rotary_dim - 1).bit_length()
    heads = x.flatten(1).unflatten(1, (-1, op.head_size)).clone()
    heads[..., op.rotary_dim : min(block, op.head_size)] = 0
    return heads.reshape(x.shape)


def rotary_embedding(
    op: Any, positions: Any, query: Any, key: Any, offsets: Any = None, fused_set_kv_buffer_arg: Any = None
) -> Any:
    answer = ops.rotary_embedding(op, positions, query, key, offsets, fused_set_kv_buffer_arg)
    if answer is NotImplemented or op.rotary_dim == op.head_size:
        return answer
    return tuple(_spilled(op, x) for x in answer)


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(RotaryEmbedding, rotary_embedding, self.get_dispatch_key_name())
