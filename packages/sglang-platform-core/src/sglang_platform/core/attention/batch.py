"""The inputs of an attention backend, for use without a host.

Field names are SGLang 0.5.23's (`ForwardBatch`, `ForwardMode`, `RadixAttention`), so one backend runs on either. In
the host the host's own objects are passed; checks and benchmarks build these.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["AttentionLayer", "ForwardBatch", "ForwardMode"]


class ForwardMode(enum.Enum):
    """What the batch computes: new prompt tokens (EXTEND), one token per request (DECODE), both (MIXED), draft tokens
    (TARGET_VERIFY), accepted drafts for the draft model's cache (DRAFT_EXTEND_V2), or nothing (IDLE)."""

    EXTEND = enum.auto()
    DECODE = enum.auto()
    MIXED = enum.auto()
    IDLE = enum.auto()
    TARGET_VERIFY = enum.auto()
    DRAFT_EXTEND_V2 = enum.auto()

    def is_decode(self) -> bool:
        return self is ForwardMode.DECODE

    def is_extend(self) -> bool:
        return self in (ForwardMode.EXTEND, ForwardMode.MIXED, ForwardMode.TARGET_VERIFY)

    def is_mixed(self) -> bool:
        return self is ForwardMode.MIXED

    def is_idle(self) -> bool:
        return self is ForwardMode.IDLE

    def is_target_verify(self) -> bool:
        return self is ForwardMode.TARGET_VERIFY


@dataclass
class AttentionLayer:
    """One attention layer's constants (SGLang's `RadixAttention` carries the same names)."""

    layer_id: int
    tp_q_head_num: int
    tp_k_head_num: int
    tp_v_head_num: int
    qk_head_dim: int
    v_head_dim: int
    scaling: float
    sliding_window_size: int = -1
    logit_cap: float = 0.0
    k_scale: torch.Tensor | float | None = None
    v_scale: torch.Tensor | float | None = None
    k_scale_float: float | None = None
    v_scale_float: float | None = None
    is_cross_attention: bool = False
    attn_type: Any = None
    use_irope: bool = False
    pos_encoding_mode: str = "NONE"
    logit_capping_method: str = "tanh"
    xai_temperature_len: int = -1

    @property
    def head_dim(self) -> int:
        return self.qk_head_dim


@dataclass
class ForwardBatch:
    """One batch. `B` requests, `T` new tokens in all (decode: T = B).

    - `req_pool_indices` int64 [B]: each request's row in `ReqToTokenPool.req_to_token`.
    - `seq_lens` int64 [B]: tokens in the cache after this step, the new ones included; `seq_lens_cpu` the same on
      the host, `seq_lens_sum` their sum.
    - `out_cache_loc` int64 [T]: the slots that the new tokens' K and V go to.
    - target verify: `seq_lens` is the prefix, and `spec_info` holds the number of drafts after it and their attention
      mask (`core.attention.speculative`).
    - extend only: `extend_prefix_lens`, `extend_seq_lens` int [B]: cached tokens before, and new tokens, per request.
    """

    forward_mode: ForwardMode
    batch_size: int
    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    out_cache_loc: torch.Tensor
    seq_lens_cpu: torch.Tensor | None = None
    seq_lens_sum: int = 0
    positions: torch.Tensor | None = None
    mrope_positions: torch.Tensor | None = None
    input_ids: torch.Tensor | None = None
    extend_prefix_lens: torch.Tensor | None = None
    extend_seq_lens: torch.Tensor | None = None
    extend_prefix_lens_cpu: list[int] | None = None
    extend_seq_lens_cpu: list[int] | None = None
    encoder_lens: torch.Tensor | None = None
    mha_return_lse: bool | None = None
    spec_info: Any = None
    extra: dict[str, Any] = field(default_factory=dict)
