"""What every KV pool shares: sizes, the layer range, slots copied to the CPU and back."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from sglang_platform.core.contract.parts import Part
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.arguments import require_at_least, require_dtype
from sglang_platform.core.memory.rows import FP8_DTYPES, move_rows, storage_dtype, store_rows

__all__ = ["KVCache"]

_GIB = 1 << 30


class KVCache(Part):
    """Per-layer buffers of `size + page_size` rows, one row per token slot, for `layer_num` layers from
    `start_layer`.

    Slots 0 to page_size - 1 are the padding page: padded tokens of a graph batch write there, and it is never read. The
    allocator lends the others. Layers are named by their number in the whole model; a pipeline stage holds the range
    [start_layer, end_layer).

    Only the constructor checks its arguments in full. Calls check what the CPU can see (shapes, the layer's number);
    slots on a device are not validated. Source of the interface: SGLang 0.5.23, `mem_cache/memory_pool.py`.
    """

    supported_dtypes: ClassVar[tuple[torch.dtype, ...]] = (
        torch.float32,
        torch.float16,
        torch.bfloat16,
        *FP8_DTYPES,
    )

    # Properties of some of the host's pools only: quantised beyond 8-bit floats, and addressed by physical slots.
    is_quantized_kv_cache: bool = False
    requires_physical_write_loc: bool = False

    # Set by the host when it loads the cache layer by layer: a reader waits until its layer has arrived.
    layer_transfer_counter: Any = None

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        layer_num: int,
        device: str | torch.device,
        enable_memory_saver: bool,
        start_layer: int | None = None,
        end_layer: int | None = None,
        allocation_label: str | None = None,
    ) -> None:
        require_at_least(self, 1, size=size, page_size=page_size)
        require_at_least(self, 0, layer_num=layer_num, start_layer=start_layer or 0)
        require_dtype(self, dtype, self.supported_dtypes)
        self.size = size
        self.page_size = page_size
        self.dtype = dtype
        self.store_dtype = storage_dtype(dtype)
        self.device = device
        self._torch_device = torch.device(device)
        self.layer_num = layer_num
        self.start_layer = start_layer or 0
        self.end_layer = self.start_layer + layer_num if end_layer is None else end_layer
        self.model_layer_ids = tuple(range(self.start_layer, self.start_layer + layer_num))
        self.enable_memory_saver = enable_memory_saver
        self.allocation_label = allocation_label
        self.cpu_offloading_chunk_size = 8192
        self.mem_usage = 0.0

    # For the subclasses

    def _layer_index(self, layer_id: int) -> int:
        """The index of a layer in this pool's lists. Raises PlatformError for a layer of another stage."""
        index = layer_id - self.start_layer
        if not 0 <= index < self.layer_num:
            raise PlatformError(
                f"layer {layer_id} is not in this {type(self).__name__}",
                why=f"it holds layers {self.start_layer} to {self.start_layer + self.layer_num - 1}"
                if self.layer_num
                else "it holds no layers",
                fix="layers count through the whole model: check the start_layer of the pool",
            )
        return index

    def _layer_to_write(self, layer: Any, layer_id_override: int | None) -> int:
        return self._layer_index(layer.layer_id if layer_id_override is None else layer_id_override)

    def _layer_to_read(self, layer_id: int) -> int:
        index = self._layer_index(layer_id)
        if self.layer_transfer_counter is not None:
            self.layer_transfer_counter.wait_until(index)
        return index

    def _as_rows(self, name: str, values: torch.Tensor, loc: torch.Tensor, *row: int) -> torch.Tensor:
        """`values` as [n, *row] for the n slots of `loc`. Raises PlatformError when the numbers do not
        fit."""
        n = loc.numel()
        shape = (n, *row)
        if values.shape == shape:
            return values
        width = 1
        for length in row:
            width *= length
        if values.numel() != n * width or (n and values.shape[0] != n):
            raise PlatformError(
                f"{type(self).__name__}: {name} of shape {tuple(values.shape)} for {n} slots",
                why=f"each slot takes a row of {' x '.join(map(str, row))}, so {name} must be {shape}",
            )
        return values.reshape(shape)

    def _as_dtype(self, stored: torch.Tensor) -> torch.Tensor:
        return stored if self.store_dtype == self.dtype else stored.view(self.dtype)

    def _as_stored(self, rows: torch.Tensor) -> torch.Tensor:
        return rows if self.store_dtype == self.dtype else rows.view(self.store_dtype)

    def _zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=self.store_dtype, device=self._torch_device)

    def _checked_buffers(self, name: str) -> None:
        """Raises PlatformError unless attribute `name` is a list with one tensor per layer."""
        buffers = getattr(self, name, None)
        good = isinstance(buffers, list) and all(isinstance(b, torch.Tensor) for b in buffers)
        if not good or len(buffers) != self.layer_num:  # type: ignore[arg-type]
            raise PlatformError(
                f"{type(self).__name__}._create_buffers() left {name} unusable",
                why=f"it must be a list of {self.layer_num} tensors, one per layer, and is "
                + (f"a list of {len(buffers)}" if isinstance(buffers, list) else repr(buffers)),
                fix=f"set self.{name} in _create_buffers()",
            )

    def _record_usage(self) -> None:
        sizes = self.get_kv_size_bytes()
        self.mem_usage = (sum(sizes) if isinstance(sizes, tuple) else sizes) / _GIB

    def get_kv_size_bytes(self) -> int | tuple[int, int]:
        """Bytes of all buffers."""
        raise NotImplementedError

    # For the host

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer."""
        raise NotImplementedError

    def get_kv_buffer_shape(self) -> tuple[torch.Size, torch.Size]:
        """Shapes of a layer's keys and values, as `get_kv_buffer` gives them."""
        keys, values = self.get_kv_buffer(self.start_layer)
        return keys.shape, values.shape

    def register_layer_transfer_counter(self, layer_transfer_counter: Any) -> None:
        """From now on, reading a layer first calls `layer_transfer_counter.wait_until(index)`."""
        self.layer_transfer_counter = layer_transfer_counter

    def maybe_get_custom_mem_pool(self) -> Any:
        """The memory pool the buffers were taken from; None: the device's ordinary one."""
        return None

    # Slots to the CPU and back, for retracted requests

    def get_cpu_copy(
        self,
        indices: torch.Tensor,
        mamba_indices: Any = None,
        req_pool_index: Any = None,
    ) -> Any:
        """A CPU copy of slots `indices` [n] in all layers; opaque, for `load_cpu_copy`.

        `mamba_indices` and `req_pool_index` are for pools that keep more than slots.
        """
        return self._copy_to_cpu(indices)

    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: torch.Tensor,
        mamba_indices: Any = None,
        req_pool_index: Any = None,
    ) -> None:
        """Write a `get_cpu_copy` into slots `indices` [n], which may be other slots than it came from.

        Raises PlatformError when n differs.
        """
        self._load_from_cpu(kv_cache_cpu, indices)

    def _slot_buffers(self, layer_index: int) -> list[torch.Tensor]:
        """Views [slots, ...] of a layer's buffers, for copies, moves and address lists; paged buffers are flattened."""
        raise NotImplementedError

    def _page_infos(self, buffers: list[torch.Tensor]) -> tuple[list[int], list[int], list[int]]:
        if not all(b.is_contiguous() for b in buffers):
            raise PlatformError(
                f"{type(self).__name__}: the buffers cannot be handed to a transfer engine",
                why="the rows of a page do not lie side by side",
                fix="override get_contiguous_buf_infos()",
            )
        sizes = [b.nbytes for b in buffers]
        return [b.data_ptr() for b in buffers], sizes, [b[0].nbytes * self.page_size for b in buffers]

    def _copy_to_cpu(self, indices: torch.Tensor) -> Any:
        # [layer][chunk][buffer]: chunks bound the extra device memory of a long request.
        return [
            [
                [buffer.index_select(0, chunk).to("cpu") for buffer in self._slot_buffers(layer)]
                for chunk in self._chunks(indices)
            ]
            for layer in range(self.layer_num)
        ]

    def _load_from_cpu(self, saved: Any, indices: torch.Tensor) -> None:
        for layer, chunks in enumerate(saved):
            held = sum(parts[0].shape[0] for parts in chunks)
            if held != indices.numel():
                raise PlatformError(
                    f"a CPU copy of {held} slots cannot be loaded into {indices.numel()} slots",
                    why="the request must come back with as many slots as it left with",
                )
            for chunk, parts in zip(self._chunks(indices), chunks, strict=True):
                for buffer, part in zip(self._slot_buffers(layer), parts, strict=True):
                    store_rows(buffer, chunk, part.to(buffer.device))

    def _chunks(self, indices: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.split(indices, self.cpu_offloading_chunk_size) if indices.numel() else ()

    # Moving slots

    def move_kv_cache(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        """Copy the rows of all layers from slots `src_loc` [n] to slots `tgt_loc` [n].

        The two may overlap: the result is as if all rows were read first. Called after speculative decoding,
        to close the gaps that rejected tokens left. Raises PlatformError when the lengths differ.
        """
        if tgt_loc.numel() != src_loc.numel():
            raise PlatformError(
                f"move_kv_cache() from {src_loc.numel()} to {tgt_loc.numel()} slots",
                why="every slot that is read must have one to go to",
            )
        if tgt_loc.numel() and self.layer_num:
            self._move_kv_cache_impl(tgt_loc.reshape(-1), src_loc.reshape(-1))

    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        """The move itself, overridable; n > 0. Rows must all be read before one is overwritten."""
        for layer in range(self.layer_num):
            for buffer in self._slot_buffers(layer):
                move_rows(buffer, tgt_loc, src_loc)
