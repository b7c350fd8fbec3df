"""The base class of attention backends.

The names are SGLang 0.5.23's `AttentionBackend`; in the host the class is re-based on it, and the host's own
defaults serve whatever a backend leaves out.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["AttentionBackend"]


class AttentionBackend:
    """Computes attention over the paged KV cache, one instance per model runner.

    A device writes `forward_decode` and `forward_extend`, and for graph capture the metadata methods it needs.

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
        self._window_slots: tuple[weakref.ref[Any], torch.Tensor] | None = None

    def slot_map(self, layer: Any, forward_batch: Any) -> torch.Tensor | None:
        """Where a layer's tokens lie in its buffers, by their slot in `req_to_token`, int64 [slots]; None: there.

        The host's pool for models with layers of a sliding window (`SWAKVPool`) keeps these layers' tokens in a smaller
        pool of its own. A backend that reads such layers must look slots up here.
        """
        layers = getattr(self.token_to_kv_pool, "layers_mapping", None)
        if layers is None or not layers[layer.layer_id][1]:
            return None
        slot_map: torch.Tensor = self.token_to_kv_pool.full_to_swa_index_mapping
        if forward_batch.forward_mode.is_decode():
            return slot_map
        if self._window_slots is None or self._window_slots[0]() is not forward_batch:
            # The host plans the next chunk of a prompt while this one runs, and clears there, on another stream, what
            # that one will not see: the map as it is now must be read before the host goes on.
            self._window_slots = (weakref.ref(forward_batch), slot_map.clone())
            if slot_map.device.type != "cpu":
                import torch

                torch.accelerator.current_stream(slot_map.device).synchronize()
        return self._window_slots[1]

    def write_location(self, layer: Any, forward_batch: Any) -> Any:
        """What the pool's `set_kv_buffer` takes as the place of the step's new tokens in `layer`'s buffers."""
        slots = forward_batch.out_cache_loc
        slot_map = self.slot_map(layer, forward_batch)
        pools = sys.modules.get("sglang.srt.mem_cache.memory_pool")
        if slot_map is None or not hasattr(pools, "KVWriteLoc"):
            return slots  # before 0.5.23's, pools translate themselves
        return pools.KVWriteLoc(slots, slot_map[slots])  # type: ignore[union-attr]

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
        """Route by mode. `q` [T, Hq * D], `k` [T, Hk * D], `v` [T, Hk * Dv] -> [T, Hq * Dv]."""
        mode = forward_batch.forward_mode
        if mode.is_idle():
            return q.new_empty(q.shape[0], layer.tp_q_head_num * layer.v_head_dim)
        run = self.forward_decode if mode.is_decode() else self.forward_extend
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

    def support_triton(self) -> bool:
        """Whether the host may launch its Triton kernels beside this backend."""
        return False
