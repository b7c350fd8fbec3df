"""The KV pool of DeepSeek sparse attention (DeepSeek-V3.2): MLA rows and the indexer's keys."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.arguments import require_at_least
from sglang_platform.core.memory.index_keys import IndexKeyCache
from sglang_platform.core.memory.mla import MLATokenToKVPool
from sglang_platform.core.memory.packed_fp8 import TILE, pack, packed_row_bytes, unpack
from sglang_platform.core.memory.rows import FP8_DTYPES

__all__ = ["DSATokenToKVPool"]


class DSATokenToKVPool(MLATokenToKVPool):
    """An MLA pool whose tokens also keep an fp8 key with a scale for the lightning indexer (`index_keys.py`).

    With an fp8 dtype and the matching `kv_cache_dim`, MLA rows are kept packed with one scale per 128 values
    (`packed_fp8.py`); otherwise as in the MLA pool.

    Overridable: what the MLA pool has, and `_create_index_key_cache()`, which returns an object with `buffer`
    (one tensor per layer) and the methods of `IndexKeyCache`. The names are SGLang 0.5.23's.
    """

    quant_block_size = TILE
    index_k_with_scale_buffer_dtype = torch.uint8

    def __init__(
        self,
        size: int,
        page_size: int,
        kv_lora_rank: int,
        dtype: torch.dtype,
        qk_rope_head_dim: int,
        layer_num: int,
        device: str | torch.device,
        index_head_dim: int,
        enable_memory_saver: bool,
        kv_cache_dim: int,
        start_layer: int | None = None,
        end_layer: int | None = None,
        index_buf_size: int | None = None,
        skip_topk_layers: list[bool] | None = None,
        **of_sglang: Any,
    ) -> None:
        """`kv_cache_dim` is the width of a row: `kv_lora_rank + qk_rope_head_dim` values, or the bytes of a
        packed row. `index_buf_size` counts the indexer's slots without the padding page, by default `size`.
        `skip_topk_layers[i]`: layer i takes over the selection of the layer before it and keeps no keys.

        `of_sglang`, the other keywords of SGLang's constructor, act in SGLang only. Raises PlatformError for invalid
        sizes.
        """
        require_at_least(self, 1, index_head_dim=index_head_dim, kv_cache_dim=kv_cache_dim)
        if index_head_dim % self.quant_block_size:
            raise PlatformError(
                f"{type(self).__name__}: index_head_dim is {index_head_dim}",
                why=f"the indexer's keys have one scale per {self.quant_block_size} values",
            )
        super().__init__(
            size,
            page_size,
            dtype,
            kv_lora_rank,
            qk_rope_head_dim,
            layer_num,
            device,
            enable_memory_saver,
            start_layer,
            end_layer,
            use_dsa=True,
            override_kv_cache_dim=kv_cache_dim,
        )
        self.index_head_dim = index_head_dim
        self.index_page_size = page_size
        self.index_buf_size = size if index_buf_size is None else index_buf_size
        self.skip_topk_layers = [False] * layer_num if skip_topk_layers is None else list(skip_topk_layers)
        self.index_key_cache = self._create_index_key_cache()
        self._record_usage()

    def _row_width(self, override_kv_cache_dim: int | None) -> int:
        packed = packed_row_bytes(self.kv_lora_rank, self.qk_rope_head_dim)
        packable = self.dtype in FP8_DTYPES and self.kv_lora_rank % TILE == 0
        self.dsa_kv_cache_store_fp8 = packable and override_kv_cache_dim == packed
        return packed if self.dsa_kv_cache_store_fp8 else super()._row_width(override_kv_cache_dim)

    # Overridable

    def _create_index_key_cache(self) -> IndexKeyCache:
        """Allocate the indexer's keys; see the class."""
        return IndexKeyCache(
            slots=self.index_buf_size + self.page_size,
            page_size=self.index_page_size,
            head_dim=self.index_head_dim,
            quant_block_size=self.quant_block_size,
            layers=[not skipped for skipped in self.skip_topk_layers],
            device=self._torch_device,
        )

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        super()._move_kv_cache_impl(tgt_loc, src_loc)
        self.index_key_cache.move(tgt_loc, src_loc)

    def get_kv_size_bytes(self) -> int:
        """Bytes of all buffers, the indexer's included."""
        return super().get_kv_size_bytes() + sum(int(b.nbytes) for b in self.index_k_with_scale_buffer)

    # MLA rows in the packed format

    def _stored_parts(self, nope: torch.Tensor, rope: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.dsa_kv_cache_store_fp8:
            return super()._stored_parts(nope, rope)
        return pack(nope, rope, self.dtype)

    def _loaded_parts(self, stored: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.dsa_kv_cache_store_fp8:
            return super()._loaded_parts(stored)
        return unpack(stored, self.kv_lora_rank, self.dtype)

    # The indexer's keys

    @property
    def index_k_with_scale_buffer(self) -> list[torch.Tensor]:
        """One buffer per layer, uint8 [pages, page bytes]."""
        return self.index_key_cache.buffer

    def get_index_k_with_scale_buffer(self, layer_id: int) -> torch.Tensor:
        """The whole buffer of a layer, uint8 [pages, page bytes], as the indexer's kernels read it."""
        return self.index_k_with_scale_buffer[self._layer_to_read(layer_id)]

    def set_index_k_scale_buffer(
        self, layer_id: int, loc: torch.Tensor, index_k: torch.Tensor, index_k_scale: torch.Tensor
    ) -> None:
        """Store quantised keys: fp8 [n, index_head_dim] and float32 scales [n] or [n, 1] for slots `loc` [n].

        Called by the indexer, once per layer and step. Raises PlatformError for shapes that do not fit.
        """
        layer_idx = self._with_keys(self._layer_index(layer_id))
        index_k = self._as_rows("index_k", index_k, loc, self.index_head_dim)
        blocks = self.index_head_dim // self.quant_block_size
        index_k_scale = self._as_rows("index_k_scale", index_k_scale, loc, blocks)
        if loc.numel():
            self.index_key_cache.store(layer_idx, loc, index_k, index_k_scale)

    def get_index_k_scale_buffer(
        self,
        layer_id: int,
        seq_len_tensor: torch.Tensor,
        page_indices: torch.Tensor,
        seq_len_sum: int,
        max_seq_len: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and scales of whole requests, one after another.

        `seq_len_tensor` [B]; `page_indices` [B, pages] names each request's pages in order; `seq_len_sum` is
        the sum of the lengths, so that nothing waits for the device; `max_seq_len` is for kernels. Returns
        bytes: keys uint8 [seq_len_sum, index_head_dim], scales uint8 [seq_len_sum, 4 * index_head_dim / 128].
        """
        layer_idx = self._with_keys(self._layer_to_read(layer_id))
        device = page_indices.device
        lengths = seq_len_tensor.long()
        request = torch.arange(lengths.numel(), device=device)
        owner = torch.repeat_interleave(request, lengths, output_size=seq_len_sum)
        start = torch.cumsum(lengths, 0) - lengths
        position = torch.arange(seq_len_sum, device=device) - start[owner]
        page = page_indices[owner, position // self.index_page_size].long()
        return self.index_key_cache.load(
            layer_idx, page * self.index_page_size + position % self.index_page_size
        )

    def get_index_k_continuous(self, layer_id: int, seq_len: int, page_indices: torch.Tensor) -> torch.Tensor:
        """Keys of one request with pages `page_indices` [pages], uint8 [seq_len, index_head_dim]."""
        return self._continuous(layer_id, seq_len, page_indices)[0]

    def get_index_k_scale_continuous(
        self, layer_id: int, seq_len: int, page_indices: torch.Tensor
    ) -> torch.Tensor:
        """Scales of one request, the bytes of float32, uint8 [seq_len, 4 * index_head_dim / 128]."""
        return self._continuous(layer_id, seq_len, page_indices)[1]

    def _continuous(
        self, layer_id: int, seq_len: int, page_indices: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        position = torch.arange(seq_len, device=page_indices.device)
        page = page_indices.reshape(-1)[position // self.index_page_size].long()
        loc = page * self.index_page_size + position % self.index_page_size
        return self.index_key_cache.load(self._with_keys(self._layer_to_read(layer_id)), loc)

    def _with_keys(self, layer_idx: int) -> int:
        if self.skip_topk_layers[layer_idx]:
            raise PlatformError(
                f"layer {self.start_layer + layer_idx} keeps no indexer keys",
                why="skip_topk_layers says that it takes over the selection of the layer before it",
            )
        return layer_idx

    # Copies

    def _copy_to_cpu(self, indices: torch.Tensor) -> Any:
        keys = [
            None if skipped else [part.to("cpu") for part in self.index_key_cache.load(layer, indices)]
            for layer, skipped in enumerate(self.skip_topk_layers)
        ]
        return {"kv": super()._copy_to_cpu(indices), "index_k": keys}

    def _load_from_cpu(self, saved: Any, indices: torch.Tensor) -> None:
        super()._load_from_cpu(saved["kv"], indices)
        for layer, parts in enumerate(saved["index_k"]):
            if parts is not None:
                keys, scales = (part.to(self._torch_device) for part in parts)
                self.index_key_cache.store_bytes(layer, indices, keys, scales)

    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """(addresses, bytes, bytes per page) of the indexer's buffers; 0 bytes per page where a layer has
        none."""
        buffers = self.index_k_with_scale_buffer
        return (
            [b.data_ptr() for b in buffers],
            [b.nbytes for b in buffers],
            [b[0].nbytes if b.shape[0] else 0 for b in buffers],
        )
