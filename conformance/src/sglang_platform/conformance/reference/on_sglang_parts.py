"""The parts of `on_sglang.py`: SGLang's own classes, with plain torch where the CPU needs it."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

__all__ = ["DirectAllocator", "DirectAttention", "DirectPool"]


class DirectPool(MHATokenToKVPool):
    """Keys and values stored and moved by plain torch."""

    def _store_kv_layer(
        self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        self.k_buffer[layer_idx][loc] = cache_k
        self.v_buffer[layer_idx][loc] = cache_v

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        for buffer in (*self.k_buffer, *self.v_buffer):
            buffer[tgt_loc] = buffer[src_loc]


class DirectAllocator(PagedTokenToKVPoolAllocator):
    """SGLang's, with a free that finds its pages on the CPU."""

    def free(self, free_index: torch.Tensor) -> None:
        if free_index.numel() and self.free_group is None:
            pages = sorted({slot // self.page_size for slot in free_index.tolist()})
            self.free_page_ids(torch.tensor(pages, dtype=torch.int64, device=self.device))
        else:
            super().free(free_index)


class DirectAttention(AttentionBackend):
    """Attention request by request, through torch's own."""

    def __init__(self, model_runner: Any) -> None:
        super().__init__()
        self.token_to_kv_pool = model_runner.token_to_kv_pool
        self.req_to_token_pool = model_runner.req_to_token_pool

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Nothing to prepare."""

    def forward_decode(
        self,
        q: Any,
        k: Any,
        v: Any,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        return self._forward(
            q, k, v, layer, forward_batch, save_kv_cache, [1] * forward_batch.batch_size, kwargs
        )

    def forward_extend(
        self,
        q: Any,
        k: Any,
        v: Any,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        new = forward_batch.extend_seq_lens.tolist()
        return self._forward(q, k, v, layer, forward_batch, save_kv_cache, new, kwargs)

    def _forward(
        self, q: Any, k: Any, v: Any, layer: Any, batch: Any, save: bool, new: list[int], more: dict[str, Any]
    ) -> torch.Tensor:
        window = layer.sliding_window_size
        if layer.logit_cap or more.get("sinks") is not None or (window is not None and window >= 0):
            raise NotImplementedError("no soft cap, no sinks, no sliding window on this device")
        if layer.attn_type.value != "decoder" or layer.is_cross_attention or layer.use_irope:
            raise NotImplementedError("decoder attention without chunks only")
        if layer.pos_encoding_mode != "NONE" or layer.xai_temperature_len > 0:
            raise NotImplementedError("no positions and no temperature by length in attention")
        if save and k is not None:
            self.token_to_kv_pool.set_kv_buffer(
                layer,
                batch.out_cache_loc,
                k.reshape(-1, layer.tp_k_head_num, layer.qk_head_dim),
                v.reshape(-1, layer.tp_v_head_num, layer.v_head_dim),
            )
        keys, values = self.token_to_kv_pool.get_kv_buffer(layer.layer_id)
        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        parts, first = [], 0
        for row, length, count in zip(
            batch.req_pool_indices.tolist(), batch.seq_lens.tolist(), new, strict=True
        ):
            slots = self.req_to_token_pool.req_to_token[row, :length].long()
            mask = torch.ones(count, length, dtype=torch.bool).tril(diagonal=length - count)
            parts.append(
                torch.nn.functional.scaled_dot_product_attention(
                    query[first : first + count].transpose(0, 1),
                    keys[slots].transpose(0, 1),
                    values[slots].transpose(0, 1),
                    attn_mask=mask,
                    scale=layer.scaling,
                    enable_gqa=True,
                ).transpose(0, 1)
            )
            first += count
        return torch.cat(parts).reshape(query.shape[0], -1)
