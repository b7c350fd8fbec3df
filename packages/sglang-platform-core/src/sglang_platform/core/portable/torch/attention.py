"""The attention backend of a device without one: decode and extend in plain torch over the paged KV cache.

A vendor with kernels derives its backend from this, and overrides `_decode` and `_extend`.
"""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.attention.backend import AttentionBackend
from sglang_platform.core.portable.torch.paged_attention import paged_decode, paged_extend
from sglang_platform.core.portable.triton.attention_layer import is_causal, refuse_unserved

__all__ = ["TorchAttentionBackend"]


class TorchAttentionBackend(AttentionBackend):
    """MHA, GQA, MQA and absorbed MLA, with sliding window, logit soft cap, sinks and 8-bit caches."""

    _reads_slot_map = True  # the kernels look slots up in `slot_map`

    def __init__(self, model_runner: Any) -> None:
        super().__init__(model_runner)
        self._own_rows: tuple[torch.Tensor, ...] | None = None

    def _decode(self, *arguments: Any) -> None:
        """One new token per request, with the arguments of `paged_decode`."""
        paged_decode(*arguments)

    def _extend(self, *arguments: Any) -> None:
        """Several new tokens per request, with the arguments of `paged_extend`."""
        paged_extend(*arguments)

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """Discard the state of the previous batch."""
        self._own_rows = None

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        sinks: torch.Tensor | None = None,
        **unknown: Any,
    ) -> torch.Tensor:
        refuse_unserved(self, unknown, forward_batch)
        key_cache, value_cache = self._store(k, v, layer, forward_batch, save_kv_cache)
        query = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = q.new_empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        self._decode(
            query,
            key_cache,
            value_cache,
            self.req_to_token_pool.req_to_token,
            forward_batch.req_pool_indices,
            forward_batch.seq_lens,
            out,
            layer.scaling * _scale(key_cache, layer, "k_scale"),
            layer.logit_cap or 0.0,
            _window(layer),
            sinks,
            self.slot_map(layer, forward_batch),
        )
        return _rescaled(out, value_cache, layer).flatten(1)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        sinks: torch.Tensor | None = None,
        **unknown: Any,
    ) -> torch.Tensor:
        refuse_unserved(self, unknown, forward_batch)
        query = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = q.new_empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        if k is not None and v is not None and not save_kv_cache and self._holds_latents():
            # MLA without a cached prefix: the model gives keys and values per head, which no pool holds.
            key_cache = k.view(-1, layer.tp_k_head_num, layer.qk_head_dim)
            value_cache = v.view(-1, layer.tp_v_head_num, layer.v_head_dim)
            table, slot_map = self._rows_of_batch(forward_batch), None
        else:
            key_cache, value_cache = self._store(k, v, layer, forward_batch, save_kv_cache)
            table = (
                self.req_to_token_pool.req_to_token,
                forward_batch.req_pool_indices,
                forward_batch.seq_lens,
                forward_batch.extend_prefix_lens,
                forward_batch.extend_seq_lens,
            )
            slot_map = self.slot_map(layer, forward_batch)
        self._extend(
            query,
            key_cache,
            value_cache,
            *table,
            out,
            layer.scaling * _scale(key_cache, layer, "k_scale"),
            layer.logit_cap or 0.0,
            _window(layer),
            is_causal(layer),
            sinks,
            slot_map,
        )
        return _rescaled(out, value_cache, layer).flatten(1)

    def _store(
        self,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        pool = self.token_to_kv_pool
        if save_kv_cache and k is not None and v is not None:
            keys = k.view(-1, layer.tp_k_head_num, layer.qk_head_dim)
            values = v.view(-1, layer.tp_v_head_num, layer.v_head_dim)
            location = self.write_location(layer, forward_batch)
            if _is_8_bit(pool.dtype) and layer.k_scale is not None:
                scales = (layer.k_scale, layer.v_scale)
                pool.set_kv_buffer(layer, location, keys, values, *scales)
            else:
                pool.set_kv_buffer(layer, location, keys, values)
        return pool.get_key_buffer(layer.layer_id), pool.get_value_buffer(layer.layer_id)

    def _holds_latents(self) -> bool:
        return self._latent_rows() is not None

    def _rows_of_batch(self, forward_batch: Any) -> tuple[torch.Tensor, ...]:
        """Token table, rows, lengths, prefixes and new tokens that address the batch's own rows as the cache."""
        if self._own_rows is None:
            lengths = forward_batch.extend_seq_lens
            first = torch.cumsum(lengths, 0) - lengths
            longest = max(forward_batch.extend_seq_lens_cpu)
            table = first[:, None] + torch.arange(longest, device=lengths.device)
            rows = torch.arange(lengths.shape[0], device=lengths.device)
            self._own_rows = (table.to(torch.int32), rows, lengths, torch.zeros_like(lengths), lengths)
        return self._own_rows


def _is_8_bit(dtype: torch.dtype) -> bool:
    return bool(dtype.itemsize == 1)


def _scale(cache: torch.Tensor, layer: Any, name: str) -> float:
    """The scale factor of an 8-bit cache; 1 without one."""
    scale = getattr(layer, name) if _is_8_bit(cache.dtype) else None
    if scale is None:
        return 1.0
    # The host keeps a Python float beside the tensor: reading the tensor would synchronise the device.
    return float(getattr(layer, f"{name}_float") or scale)


def _rescaled(out: torch.Tensor, value_cache: torch.Tensor, layer: Any) -> torch.Tensor:
    scale = _scale(value_cache, layer, "v_scale")
    return out if scale == 1.0 else out.mul_(scale)


def _window(layer: Any) -> int:
    """Positions before the current one that it may attend to; -1 for all."""
    window = layer.sliding_window_size
    return -1 if window is None else int(window)
