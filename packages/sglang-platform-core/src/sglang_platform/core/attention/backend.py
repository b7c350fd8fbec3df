"""The base class of attention backends.

The names are those of SGLang 0.5.23's `AttentionBackend`. In the host the class is re-based on it, and the host's
defaults apply to whatever a backend does not define.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sglang_platform.core.attention.layer_fields import refuse_fields
from sglang_platform.core.attention.speculative import (
    DraftPlace,
    DraftStep,
    TokenTable,
    draft_extend_step,
    draft_step,
    verify_step,
)
from sglang_platform.core.contract.parts import Part

if TYPE_CHECKING:
    import torch

__all__ = ["AttentionBackend", "LatentRows"]


class LatentRows(NamedTuple):
    """A pool of latent rows (MLA). packed: in the 8-bit format of sparse attention, with scales between the values."""

    pool: Any
    packed: bool


class AttentionBackend(Part):
    """Computes attention over the paged KV cache, one instance per model runner.

    A device writes `forward_decode` and `forward_extend`, and for graph capture the metadata methods it needs. Steps of
    speculative decoding are expressed as decode and extend steps (`attention.speculative`), unless it overrides
    `forward_verify` and `forward_draft`.

    The host calls, per step: `init_forward_metadata(batch)` once, then `forward(...)` once per layer. Under graph
    capture it calls `init_cuda_graph_state` once, `init_forward_metadata_out_graph(batch, in_capture)` before each
    capture and replay, and `init_forward_metadata_in_graph(batch)` inside the capture.
    """

    def __init__(self, model_runner: Any) -> None:
        """`model_runner` gives `token_to_kv_pool`, `req_to_token_pool` and `device`."""
        super().__init__()
        self.token_to_kv_pool = model_runner.token_to_kv_pool
        self.req_to_token_pool = model_runner.req_to_token_pool
        self.device = model_runner.device
        self._prepared_step: tuple[weakref.ref[Any], int, DraftStep] | None = None

    _reads_slot_map: ClassVar[bool] = False
    """Set by a backend whose kernels look slots up in `slot_map`; a pool with a slot map requires it."""

    layer_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields of SGLang's `RadixAttention` that this backend computes though no word of `attention_features` names them,
    such as `xai_temperature_len`; a layer that sets another one is refused."""

    _later_fields: ClassVar[Mapping[str, Any]] = {}
    """Fields of the installed release that core does not know, with their defaults. Set by the host's adapter."""

    drafts: DraftPlace | None = None
    """The step of a draft model that this backend serves, set when it is built; None for other backends."""

    # Queries about the pool, which a host's adapter overrides for the host's pool classes.

    def _window_layers(self) -> Mapping[int, tuple[int, bool]] | None:
        """The index of each layer, and whether it is in a separate, smaller pool for sliding windows; None without such
        a pool."""
        return None

    def _latent_rows(self) -> LatentRows | None:
        """The pool of latent rows, None where keys and values are kept per head."""
        # Imported here: it imports torch, which importing this module must not.
        from sglang_platform.core.memory.mla import MLATokenToKVPool

        pool = self.token_to_kv_pool
        return LatentRows(pool, pool.dsa_kv_cache_store_fp8) if isinstance(pool, MLATokenToKVPool) else None

    def slot_map(self, layer: Any, forward_batch: Any) -> torch.Tensor | None:
        """Maps slots of `req_to_token` to slots of the layer's buffers, int64 [slots]; None: the slots are the same.

        The host's pool for models with layers of a sliding window (`SWAKVPool`) keeps these layers' tokens in a
        separate, smaller pool; a plugin's pool may have a `slot_map`. A backend that reads such pools must look slots
        up here.
        """
        layers = self._window_layers()
        if layers is None or not layers[layer.layer_id][1]:
            return getattr(self.token_to_kv_pool, "slot_map", None)
        slot_map: torch.Tensor = self.token_to_kv_pool.full_to_swa_index_mapping
        return slot_map

    def write_location(self, layer: Any, forward_batch: Any) -> Any:
        """The `loc` argument of the pool's `set_kv_buffer` for the step's new tokens in `layer`.

        By default their slots; a host may also want their slots in the pool for sliding windows.
        """
        return forward_batch.out_cache_loc

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Prepare what all layers of an eager step share. Default: the two graph-aware halves, in order."""
        self.init_forward_metadata_out_graph(forward_batch)
        self.init_forward_metadata_in_graph(forward_batch)

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """Per-step preparation outside the graph: host work, dynamic shapes. Default: nothing."""

    def init_forward_metadata_in_graph(self, forward_batch: Any) -> None:
        """Per-step preparation that is recorded into the graph: static shapes, device work only. Default: nothing."""

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Allocate the static buffers that captured graphs of up to `max_bs` requests share."""
        raise NotImplementedError(
            f"{type(self).__name__}.init_cuda_graph_state() is needed for graph capture: allocate the static "
            "metadata buffers there, or leave capabilities.graph_capture False"
        )

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """The sequence length of padded rows; 1 reads only the reserved slot 0."""
        return 1

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Route by mode, once the layer asks for nothing that is not computed (`layer_fields`).

        `q` [T, Hq * D], `k` [T, Hk * D], `v` [T, Hk * Dv] -> [T, Hq * Dv], whose rows are contiguous: the projection
        that follows quantises them, and asserts it (`sglang_per_token_group_quant_fp8`, SGLang 0.5.23).
        """
        refuse_fields(self, layer, self.layer_fields, self._later_fields)
        mode = forward_batch.forward_mode
        if mode.is_idle():
            return q.new_empty(q.shape[0], layer.tp_q_head_num * layer.v_head_dim)
        if mode.is_target_verify():
            run = self.forward_verify
        elif mode.is_extend():
            run = self.forward_extend
        elif not mode.is_decode():
            run = self.forward_draft_extend
        else:
            run = self.forward_decode if self.drafts is None else self.forward_draft
        return run(q, k, v, layer, forward_batch, save_kv_cache=save_kv_cache, **kwargs)

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
        """One new token per request against its cache. Store k and v first when `save_kv_cache`."""
        raise NotImplementedError(f"{type(self).__name__}.forward_decode() must be implemented by the device")

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
        """New tokens of each request against its cached prefix and themselves, causal."""
        raise NotImplementedError(f"{type(self).__name__}.forward_extend() must be implemented by the device")

    def forward_verify(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Draft tokens against their request's prefix and each other, as `spec_info.custom_mask` says.

        The target model of speculative decoding calls it. `seq_lens` [B] is the prefix; T = B * draft_token_num.
        Default: `forward_extend` for a chain, for a tree, `forward_decode` with one row per node. The slot table of
        these rows is per token even if pages are larger, so a backend that reads whole pages overrides this.
        """
        step = self._prepared(layer, forward_batch)
        return self._run(step, q, k, v, layer, save_kv_cache=save_kv_cache, **kwargs)

    def forward_draft(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        """One token for each beam of a draft model, in the step `drafts`. Default: `forward_decode`."""
        step = self._prepared(layer, forward_batch)
        return self._run(step, q, k, v, layer, save_kv_cache=save_kv_cache, **kwargs)

    def forward_draft_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        """The verified tokens of each request, for a draft model's cache. Default: `forward_extend`."""
        step = self._prepared(layer, forward_batch)
        return self._run(step, q, k, v, layer, save_kv_cache=save_kv_cache, **kwargs)

    def _prepared(self, layer: Any, forward_batch: Any) -> DraftStep:
        """The step of this forward, built in its first layer, so that a captured graph rebuilds it in each replay.

        Its metadata, including the part outside the graph, is also prepared here: on the device, without lengths on the
        CPU.
        """
        kept = self._prepared_step
        if kept is not None and kept[0]() is forward_batch and layer.layer_id > kept[1]:
            step = kept[2]
        else:
            table = self.req_to_token_pool.req_to_token
            mode = forward_batch.forward_mode
            if mode.is_target_verify():
                step = verify_step(forward_batch, table)
            elif mode.is_decode():
                assert self.drafts is not None
                step = draft_step(forward_batch, table, self.drafts)
            else:
                step = draft_extend_step(forward_batch)
            self.init_forward_metadata(step.batch)
        self._prepared_step = (weakref.ref(forward_batch), layer.layer_id, step)
        return step

    def _run(self, step: DraftStep, q: Any, k: Any, v: Any, layer: Any, **kwargs: Any) -> torch.Tensor:
        run = self.forward_extend if step.extends else self.forward_decode
        with self._reading(step.table):
            return run(q, k, v, layer, step.batch, **kwargs)

    @contextmanager
    def _reading(self, table: TokenTable | None) -> Iterator[None]:
        """Replace the request pool with the step's own table, if any, during the forward."""
        pool = self.req_to_token_pool
        self.req_to_token_pool = pool if table is None else table
        try:
            yield
        finally:
            self.req_to_token_pool = pool

    def support_triton(self) -> bool:
        """Whether the host may launch its Triton kernels beside this backend."""
        return False
