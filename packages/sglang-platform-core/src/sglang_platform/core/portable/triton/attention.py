"""The attention backend of devices that Triton compiles for: decode and extend on kernels, cache read in place.

MHA, GQA, MQA, absorbed MLA and sparse MLA (DSA), sliding windows, soft caps, sinks, 8-bit caches with scales. A package
passes its kernels in as `kernels`; their interface is the same on every device.

Graph capture needs no buffers of this class: the kernels read lengths, rows and the request table in the runner's
buffers, and split the tokens into parts by these lengths on the device, in one launch per step; the grid depends on the
batch size and the table's width.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from sglang_platform.core.attention.backend import AttentionBackend
from sglang_platform.core.attention.speculative import TokenTable
from sglang_platform.core.counters import counter
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.rows import FP8_DTYPES
from sglang_platform.core.portable.triton.attention_kernels import AttentionKernels
from sglang_platform.core.portable.triton.attention_layer import is_causal, joined, refuse_unserved, rule_of
from sglang_platform.core.portable.triton.attention_shapes import logit_chunks, one_element
from sglang_platform.core.portable.triton.attention_step import TritonAttentionStep
from sglang_platform.core.portable.triton.top_slots import top_slots

__all__ = ["TritonAttentionBackend"]

_decodes = counter("triton.attention.decodes")
_extends = counter("triton.attention.extends")
_sparse = counter("triton.attention.sparse")


class TritonAttentionBackend(AttentionBackend):
    """See the module. Built as `cls(model_runner)`, by a host or without one."""

    kernels: ClassVar[AttentionKernels]
    """The package's kernels."""

    def __init__(self, model_runner: Any) -> None:
        super().__init__(model_runner)
        if self._window_layers() is not None:
            raise PlatformError(
                f"{type(self).__name__} cannot read the cache of this model",
                why="its sliding-window layers have a pool of their own, whose slots the request table does not name",
                fix="start with --disable-hybrid-swa-memory, or choose another --attention-backend",
            )
        self._latent = self._latent_rows()
        self._packed = self._latent.pool.dtype if self._latent is not None and self._latent.packed else None
        self._step = TritonAttentionStep()
        # Made here, where nothing is being captured: a tensor made during capture belongs to that graph.
        one_element(torch.empty(0, device=self.device), torch.empty(0), None)

    # Metadata

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Nothing to allocate: the kernels read the runner's static inputs."""

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        self._step = TritonAttentionStep.of(forward_batch, in_capture, type(self).__name__)

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        *,
        sinks: torch.Tensor | None = None,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        topk_indices: torch.Tensor | None = None,
        **unknown: Any,
    ) -> torch.Tensor:
        refuse_unserved(self, unknown, forward_batch)
        query = joined(q, q_rope, layer.tp_q_head_num, layer.qk_head_dim)
        self._store(k, k_rope, v, layer, forward_batch, save_kv_cache)
        if topk_indices is not None:
            return self._forward_sparse(query, layer, topk_indices, sinks)
        keys, values = self._buffers(layer)
        out = query.new_empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        self.kernels.decode(
            query,
            keys,
            values,
            self.req_to_token_pool.req_to_token,
            forward_batch.req_pool_indices,
            forward_batch.seq_lens,
            out,
            packed=self._packed,
            page_size=self._page_size(),
            max_len=self._step.longest,
            alike=self._step.alike,
            plans=self._step.plans_of(layer.layer_id),
            **self._options(layer, sinks),
        )
        _decodes.add()
        return out.flatten(1)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        *,
        sinks: torch.Tensor | None = None,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        topk_indices: torch.Tensor | None = None,
        **unknown: Any,
    ) -> torch.Tensor:
        refuse_unserved(self, unknown, forward_batch)
        query = joined(q, q_rope, layer.tp_q_head_num, layer.qk_head_dim)
        self._store(k, k_rope, v, layer, forward_batch, save_kv_cache)
        if topk_indices is not None:
            return self._forward_sparse(query, layer, topk_indices, sinks)
        if self._packed is not None and not self._beside(layer):
            raise PlatformError(
                "the packed cache of sparse MLA is read by selected tokens only",
                why="no topk_indices were handed to the extend of a layer that attends to all tokens",
            )
        step = self._step
        assert step.query_start is not None
        keys, values = self._buffers(layer)
        new_k: torch.Tensor | None = None
        new_v: torch.Tensor | None = None
        if self._reads_new(k, keys, layer, save_kv_cache):
            assert k is not None
            assert v is not None
            new_k = k.view(-1, layer.tp_k_head_num, layer.qk_head_dim)
            new_v = v.view(-1, layer.tp_v_head_num, layer.v_head_dim)
        if self._beside(layer):
            if step.any_prefix:
                raise PlatformError(
                    f"layer {layer.layer_id} attends with {layer.tp_k_head_num} heads of {layer.qk_head_dim} to a "
                    "cached prefix that is latent",
                    why="the cache holds one latent row per token, which only the absorbed form reads",
                    fix="run MLA absorbed where a prefix is cached",
                )
            keys, values = query[:1], query[:1]
        out = query.new_empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        self.kernels.extend(
            query,
            new_k,
            new_v,
            keys,
            values,
            self.req_to_token_pool.req_to_token,
            forward_batch.req_pool_indices,
            step.query_start,
            step.prefix_lens,
            out,
            max_new=step.max_new,
            max_prefix=step.max_prefix,
            causal=is_causal(layer),
            **self._options(layer, sinks),
        )
        _extends.add()
        return out.flatten(1)

    # Sparse attention

    def select_tokens(
        self, q_index: torch.Tensor, weights: torch.Tensor, layer: Any, forward_batch: Any, topk: int
    ) -> torch.Tensor:
        """The slots of the `topk` tokens that each new token attends to, int32 [T, topk], padded with -1.

        q_index [T, heads, index_head_dim] and weights float32 [T, heads] come from the indexer, whose keys are in the
        pool. `forward` takes the result as `topk_indices`.
        """
        pool = self.token_to_kv_pool
        rows, lengths = self._step.rows_and_lengths(forward_batch)
        width = self._step.longest or self.req_to_token_pool.req_to_token.shape[1]
        table = self.req_to_token_pool.req_to_token
        launch = self.kernels.shapes_of(q_index.device).select
        chosen = []
        for at in logit_chunks(q_index.shape[0], width):
            logits = self.kernels.index_logits(
                q_index[at],
                weights[at],
                pool.get_index_k_with_scale_buffer(layer.layer_id),
                table,
                rows[at],
                lengths[at],
                page_size=pool.page_size,
                width=width,
                runs=not forward_batch.forward_mode.is_decode(),
            )
            chosen.append(top_slots(logits, table, rows[at], lengths[at], topk=topk, launch=launch))
        return chosen[0] if len(chosen) == 1 else torch.cat(chosen)

    def _forward_sparse(
        self, query: torch.Tensor, layer: Any, slots: torch.Tensor, sinks: torch.Tensor | None
    ) -> torch.Tensor:
        """`slots` int32 [T, topk]: the slots that each row of `query` attends to, padded with -1."""
        keys, values = self._buffers(layer)
        out = query.new_empty(query.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        rows = torch.arange(slots.shape[0], device=slots.device)
        options = {**self._options(layer, sinks), "window": -1}
        self.kernels.decode(
            query, keys, values, slots, rows, (slots >= 0).sum(1), out, packed=self._packed, **options
        )
        _sparse.add()
        return out.flatten(1)

    # Parts of a pass

    def _beside(self, layer: Any) -> bool:
        """True if a layer's keys do not have the form of the cache's latent rows."""
        if self._latent is None:
            return False
        pool = self._latent.pool
        return bool(layer.qk_head_dim != pool.kv_lora_rank + pool.qk_rope_head_dim)

    def _reads_new(self, k: torch.Tensor | None, keys: torch.Tensor, layer: Any, stored: bool) -> bool:
        """Whether the new tokens' keys are read from `k` rather than from the cache.

        With an 8-bit cache they are read as stored, so that the chunking of a prompt does not change the result.
        """
        if k is None or (self._latent is not None and not self._beside(layer)):
            return False
        return not stored or self._beside(layer) or keys.dtype == k.dtype

    def _page_size(self) -> int:
        """The page size of the step's table; 1 for drafts, whose slots may lie in any page."""
        drafts = self.drafts is not None or isinstance(self.req_to_token_pool, TokenTable)
        return 1 if drafts else int(self.token_to_kv_pool.page_size)

    def _buffers(self, layer: Any) -> tuple[torch.Tensor, torch.Tensor]:
        pool = self.token_to_kv_pool
        if self._beside(layer):
            return pool.get_key_buffer(layer.layer_id), pool.get_key_buffer(layer.layer_id)
        if self._packed is not None:
            raw = pool.kv_buffer[layer.layer_id - pool.start_layer].view(torch.uint8)
            return raw, raw[..., : layer.v_head_dim]
        keys = pool.get_key_buffer(layer.layer_id)
        if keys.dim() != 3:
            raise PlatformError(
                f"{type(self).__name__} cannot read a KV cache whose layers have the shape {tuple(keys.shape)}",
                why="its kernels read rows [slots, heads, head_dim]; the host has laid this pool out in another way",
                fix="leave out what asks for the layout (SGLANG_USE_HND_KVCACHE, SGLANG_AITER_KV_CACHE_LAYOUT), or "
                "choose another --attention-backend",
            )
        if self._latent is not None:
            return keys, keys[..., : layer.v_head_dim]
        return keys, pool.get_value_buffer(layer.layer_id)

    def _options(self, layer: Any, sinks: torch.Tensor | None) -> dict[str, Any]:
        pool = self.token_to_kv_pool
        scaled = pool.dtype in FP8_DTYPES and self._packed is None and not self._beside(layer)
        return rule_of(layer, sinks, pool.device, scaled=scaled, latent=self._latent is not None)

    def _store(
        self,
        k: torch.Tensor | None,
        k_rope: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool,
    ) -> None:
        if not save_kv_cache or k is None or v is None:
            return
        pool, loc = self.token_to_kv_pool, forward_batch.out_cache_loc
        if self._latent is not None:
            rows = joined(k, k_rope, 1, layer.qk_head_dim)
            if pool.dtype in FP8_DTYPES and layer.k_scale is not None and self._packed is None:
                rows = rows / layer.k_scale
            pool.set_kv_buffer(layer, loc, rows, rows[..., : layer.v_head_dim])
            return
        pool.set_kv_buffer(
            layer,
            loc,
            k.view(-1, layer.tp_k_head_num, layer.qk_head_dim),
            v.view(-1, layer.tp_v_head_num, layer.v_head_dim),
            layer.k_scale,
            layer.v_scale,
        )

    def support_triton(self) -> bool:
        """The host's Triton kernels run on these devices."""
        return True
