"""Sets the attributes that SGLang expects on a pool besides its buffers, around a vendor's `_create_buffers`."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.memory.arguments import require_dtype
from sglang_platform.core.sglang.versions import facts

__all__ = ["PoolCompletion"]

_UNUSED = ("k_scale", "v_scale", "native_k_scale", "native_v_scale", "dq_k", "dq_v")
_FP8_FLAG = "dsa_kv_cache_store_fp8"


class PoolCompletion:
    """Lets `_create_buffers` of a vendor set `k_buffer` and `v_buffer` (MLA: `kv_buffer`) and nothing else.

    Refuses dtypes outside the vendor's `supported_dtypes`: the host's constructor, which runs instead of core's,
    accepts any.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        stores = getattr(self, "supported_dtypes", None)
        if stores is not None and "dtype" in kwargs:
            require_dtype(self, kwargs["dtype"], stores)
        for name in facts().stray_pool_keywords:
            if name in kwargs and "kv_cache_dim" not in kwargs:  # a DSA pool takes them, an MLA pool does not
                del kwargs[name]
        super().__init__(*args, **kwargs)

    def _create_buffers(self) -> None:
        for name in _UNUSED:
            setattr(self, f"{name}_buffer", None)
        packed = facts().dsa_fp8_flag
        if packed != _FP8_FLAG and hasattr(self, packed):  # a latent pool
            setattr(self, _FP8_FLAG, getattr(self, packed))
        super()._create_buffers()  # type: ignore[misc]
        slots = self.size + self.page_size  # type: ignore[attr-defined]
        if any(len(buffer) < slots for buffer in getattr(self, "k_buffer", [()])):
            return  # no rows per slot to describe; SGLang's constructor describes latent pools
        if not facts().describes_buffers:
            if not hasattr(self, "data_ptrs"):
                self._describe_by_tensors()
        elif not hasattr(self, "_kv_buffer_descs"):
            self._kv_buffer_descs = self._build_kv_buffer_descs()  # type: ignore[attr-defined]
            self._init_data_ptrs_and_strides()  # type: ignore[attr-defined]

    def _describe_by_tensors(self) -> None:
        """Set the tensors of addresses and row strides, for releases that keep them beside the buffers."""
        import torch

        pool: Any = self
        addresses = [
            torch.tensor([b.data_ptr() for b in buffers], dtype=torch.uint64, device=pool.device)
            for buffers in (pool.k_buffer, pool.v_buffer)
        ]
        self.k_data_ptrs, self.v_data_ptrs = addresses
        self.data_ptrs = torch.cat(addresses)
        self.data_strides = torch.tensor(
            [b.stride(0) * b.element_size() for b in (*pool.k_buffer, *pool.v_buffer)], device=pool.device
        )
