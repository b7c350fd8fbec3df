"""The attention backend: decode and extend over the paged KV cache, read in place.

A vendor changes: the two kernel calls, and the metadata its kernels need per step.
"""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core import AttentionBackend, counter
from sglang_platform.example_oot.kernels import paged_decode, paged_extend

_decodes = counter("example_oot.attention.decodes")
_extends = counter("example_oot.attention.extends")


class ExampleOOTAttentionBackend(AttentionBackend):
    """MHA, GQA and MQA with sliding window and logit soft cap. The kernels need no metadata beyond the batch's own
    tensors, so a captured graph replays with new lengths and slots."""

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Nothing to allocate: the kernels read the runner's static inputs."""

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """Nothing to prepare."""

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        key_cache, value_cache = self._store(k, v, layer, forward_batch, save_kv_cache)
        query = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = q.new_empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        paged_decode(
            query,
            key_cache,
            value_cache,
            self.req_to_token_pool.req_to_token,
            forward_batch.req_pool_indices,
            forward_batch.seq_lens,
            out,
            layer.scaling,
            layer.logit_cap or 0.0,
            _window(layer),
        )
        _decodes.add()
        return out.view(out.shape[0], -1)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        key_cache, value_cache = self._store(k, v, layer, forward_batch, save_kv_cache)
        query = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = q.new_empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        paged_extend(
            query,
            key_cache,
            value_cache,
            self.req_to_token_pool.req_to_token,
            forward_batch.req_pool_indices,
            forward_batch.seq_lens,
            forward_batch.extend_prefix_lens,
            forward_batch.extend_seq_lens,
            out,
            layer.scaling,
            layer.logit_cap or 0.0,
            _window(layer),
            _is_causal(layer),
        )
        _extends.add()
        return out.view(out.shape[0], -1)

    def _store(
        self,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if layer.is_cross_attention:
            raise NotImplementedError(
                "the example device serves decoder self-attention only, not cross-attention"
            )
        pool = self.token_to_kv_pool
        if save_kv_cache and k is not None and v is not None:
            pool.set_kv_buffer(
                layer,
                forward_batch.out_cache_loc,
                k.view(-1, layer.tp_k_head_num, layer.qk_head_dim),
                v.view(-1, layer.tp_v_head_num, layer.v_head_dim),
            )
        return pool.get_key_buffer(layer.layer_id), pool.get_value_buffer(layer.layer_id)


def _window(layer: Any) -> int:
    """Positions before the current one that it may attend to; -1 for all."""
    window = layer.sliding_window_size
    return -1 if window is None else int(window)


def _is_causal(layer: Any) -> bool:
    # The host's encoder-only layers carry AttentionType.ENCODER_ONLY, whose value is "encoder_only".
    return getattr(layer.attn_type, "value", None) != "encoder_only"
