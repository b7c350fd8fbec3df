"""More ops of text models, with their arguments and results. Register a forward for these by class or by name; any
other op of the host is registered by its class name only.

x is [.., H] of float32, bfloat16 or float16, unless said otherwise; results have x's dtype and are rounded once.
"""

from __future__ import annotations

from sglang_platform.core.ops.fused_op import FusedOp

__all__ = [
    "DeepseekScalingRotaryEmbedding",
    "GeluAndMul",
    "Gemma3RMSNorm",
    "Gemma4RMSNorm",
    "GemmaRMSNorm",
    "LayerNorm",
    "MRotaryEmbedding",
    "Mixer2RMSNormGated",
    "NewGELU",
    "QuickGELU",
    "RMSNormWithoutScale",
    "ReLU2",
    "TopK",
]


class GemmaRMSNorm(FusedOp):
    """`fn(op, x, residual=None, post_residual_addition=None)`: as `RMSNorm`, times 1 + `weight` [H].

    `op` has `weight`, which may be of another type than x, and `variance_epsilon`.
    """

    op = "layernorm.gemma_rms_norm"


class Gemma3RMSNorm(FusedOp):
    """`fn(op, x, residual=None)`: as `GemmaRMSNorm`; its epsilon is `op.eps`."""

    op = "layernorm.gemma3_rms_norm"


class Gemma4RMSNorm(FusedOp):
    """`fn(op, x)`: RMS normalisation times `weight` [H] + `scale_shift`, or times nothing where `with_scale` is False;
    its epsilon is `op.eps`."""

    op = "layernorm.gemma4_rms_norm"


class RMSNormWithoutScale(FusedOp):
    """`fn(op, x)`: RMS normalisation, times nothing; its epsilon is `op.eps`."""

    op = "layernorm.rms_norm_without_scale"


class Mixer2RMSNormGated(FusedOp):
    """The norm at the end of a Mamba-2 mixer. `fn(op, x, gate)`: x and gate [.., H] -> RMS of x * silu(gate), times
    `weight` [H].

    The mean is taken over each of `n_groups` groups of `group_size` columns. Without `use_rms_norm` the result is the
    product alone. If `tp_size` ranks share a group, its columns are spread over ranks: sum over the ranks, or return
    NotImplemented.
    """

    op = "layernorm.mixer2_rms_norm_gated"


class LayerNorm(FusedOp):
    """`fn(op, x)`: (x - mean) / sqrt(variance + `variance_epsilon`) * `weight` [H] + `bias` [H], computed in `op.dtype`
    or better. Without `elementwise_affine` there is no weight, without `use_bias` no bias."""

    op = "layernorm.layer_norm"


class GeluAndMul(FusedOp):
    """`fn(op, x)`: x [.., 2 I] -> gelu(x[.., :I]) * x[.., I:]; `op.approximate` is `"tanh"` or `"none"`."""

    op = "activation.gelu_and_mul"


class NewGELU(FusedOp):
    """`fn(op, x)`: gelu with the tanh approximation."""

    op = "activation.new_gelu"


class QuickGELU(FusedOp):
    """`fn(op, x)`: x * sigmoid(1.702 x)."""

    op = "activation.quick_gelu"


class ReLU2(FusedOp):
    """`fn(op, x)`: max(0, x) squared."""

    op = "activation.relu2"


class TopK(FusedOp):
    """The choice of experts. `fn(op, hidden_states, router_logits, config)`: router_logits [T, E] -> (weights float32
    [T, K], ids int32 [T, K]), the experts of a token in any order.

    `config` has `top_k` and `renormalize`; scores are the softmax over all experts, and with `renormalize` the weights
    chosen are divided by their sum. Other settings of `config` must be computed or answered with NotImplemented:
    another `scoring_func`, `use_grouped_topk`, `correction_bias`, `custom_routing_function`, a factor applied on the
    output. The host post-processes this choice like its own: it moves experts between ranks, masks padding, records the
    choice.
    """

    op = "moe.topk"


class MRotaryEmbedding(FusedOp):
    """Rotary embedding with positions of three axes. `fn(op, positions, query, key, ...)` -> (query, key).

    positions [T], or [3, T] for time, height and width. `op` has the attributes of `RotaryEmbedding`, `mrope_section`
    (the number of pairs per axis), and `mrope_interleaved`. If that is True, pairs alternate between the axes until an
    axis's section is used up, and the remaining pairs take the first axis; otherwise pairs are assigned section by
    section. `mrope_interleaved_glm` is another order: compute it, or return NotImplemented.
    """

    op = "rotary.mrope"


class DeepseekScalingRotaryEmbedding(FusedOp):
    """`fn(op, positions, query, key, offsets=None)` -> (query, key): as `RotaryEmbedding`, of query [T, Hq, D] and key
    [T, Hk, D], whose first `rotary_dim` columns are rotated."""

    op = "rotary.deepseek_scaling"
