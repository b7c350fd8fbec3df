"""Forwards registered by name are the ones that SGLang's own op objects call, also those of subclasses that compute the
same; an op that the release does not have is warned of with the nearest name."""

# ruff: noqa: E402 -- each import stands where the check first needs it

import logging

import sglang.srt.platforms as host  # noqa: F401

from sglang_platform.core import FusedOp
from sglang_platform.core import current_platform as platform
from sglang_platform.core.sglang.ops import fused as fused_ops

platform.init_backend()
KEY = platform.get_dispatch_key_name()

import torch
from sglang.srt.layers import activation
from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding
from sglang.srt.layers.rotary_embedding.rope_variant import (
    DeepseekScalingRotaryEmbedding,
    Llama3RotaryEmbedding,
)

called: list[str] = []


def counted(name):
    def forward(op, *args, **kwargs):
        called.append(name)
        return NotImplemented  # SGLang's own forward goes on

    return forward


for name in ("ReLU2", "activation.quick_gelu", "RotaryEmbedding", "SituAndMul"):
    FusedOp.register_oot_forward(name, counted(name), KEY)
served = fused_ops.register_fused_ops(KEY)
assert {"ReLU2", "activation.quick_gelu", "rotary.rotary_embedding", "SituAndMul"} - set(served) == {
    "ReLU2"
}, served

x = torch.linspace(-2, 2, 16).reshape(2, 8)
assert torch.equal(activation.ReLU2()(x), x.relu() ** 2)
assert torch.allclose(activation.QuickGELU()(x), x * torch.sigmoid(1.702 * x))
activation.SituAndMul()(x)
assert called == ["ReLU2", "activation.quick_gelu", "SituAndMul"], called
called.clear()

llama3 = Llama3RotaryEmbedding(8, 8, 64, 10000, True, torch.float32, 8.0, 1.0, 4.0, 32)
query, key, positions = torch.randn(3, 16), torch.randn(3, 8), torch.arange(3)
got = llama3(positions, query.clone(), key.clone())
assert called == ["RotaryEmbedding"], called  # it computes the same from another table
assert torch.equal(got[0], llama3.forward_native(positions, query.clone(), key.clone())[0])
assert fused_ops._forward_for(RotaryEmbedding) is fused_ops._forward_for(Llama3RotaryEmbedding)
assert fused_ops._forward_for(DeepseekScalingRotaryEmbedding) is not fused_ops._forward_for(RotaryEmbedding)

# What was registered with SGLang's own class stays, and is more particular.
called.clear()
activation.ReLU2.register_oot_forward(activation.ReLU2, lambda op, x: x + 1, KEY)
assert torch.equal(activation.ReLU2()(x), x + 1)
assert called == [], called

# A forward that SGLang never asks for is warned of and left, a misspelt name with the nearest.
told: list[str] = []
handler = logging.Handler()
handler.emit = lambda record: told.append(record.getMessage())
logging.getLogger(fused_ops.__name__).addHandler(handler)
FusedOp.register_oot_forward("XIELU", counted("XIELU"), KEY)
for name in ("GemaRMSNorm", "layernorm.rmsnorm"):
    FusedOp.register_oot_forward(name, counted(name), KEY)
platform.init_backend()
assert fused_ops._forwards.keys().isdisjoint({"XIELU", "GemaRMSNorm", "layernorm.rmsnorm"})
xielu, gemma, rms_norm = told
assert "op XIELU never runs" in xielu, told
assert "op GemaRMSNorm never runs" in gemma, told
assert "did you mean 'GemmaRMSNorm'" in gemma, told
assert "did you mean 'layernorm.rms_norm'" in rms_norm, told
