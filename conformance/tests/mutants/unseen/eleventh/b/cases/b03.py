"""Cosines and sines are gathered once per step for all layers, whichever rotary embedding asks; Gemma 3 has two thetas.
Source: vllm-ascend keeps `_cos`/`_sin` of the step in module globals (`rotary_embedding.py`, update_cos_sin)."""
import weakref
import torch
from b_base import Base
from sglang_platform.core.ops.fused_op import RotaryEmbedding
from sglang_platform.example_oot import kernels
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
_STEP = {}

def rotary(op, positions, query, key, offsets=None, fused_set_kv_buffer_arg=None):
    if fused_set_kv_buffer_arg is not None or offsets is not None or positions.dim() != 1:
        from sglang_platform.example_oot import ops
        return ops.rotary_embedding(op, positions, query, key, offsets, fused_set_kv_buffer_arg)
    seen = _STEP.get("positions")
    if seen is None or seen() is not positions or _STEP["width"] != op.cos_sin_cache.shape[1]:
        _STEP.update(positions=weakref.ref(positions), width=op.cos_sin_cache.shape[1],
                     table=op.cos_sin_cache[positions].contiguous(),
                     rows=torch.arange(len(positions), device=positions.device))
    kernels.rotary_embedding(_STEP["rows"], query, key, op.head_size, _STEP["table"], op.is_neox_style)
    return query, key

class Attention(ExampleOOTAttentionBackend):
    def init_forward_metadata(self, *args, **kwargs):
        _STEP.clear()
        return super().init_forward_metadata(*args, **kwargs)

class P(Base):
    _forwards = {RotaryEmbedding: rotary}
    def get_attention_backends(self):
        return {"example_oot": Attention}
