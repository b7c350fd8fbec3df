"""Pools by kind; the class is made once SGLang is there."""

from sglang.srt.mem_cache import memory_pool as host


def _pool(base):
    class BasaltPool(base):
        def get_kv_size_bytes(self):
            sizes = super().get_kv_size_bytes()
            return sizes

        def get_cpu_copy(self, indices, mamba_indices=None, req_pool_index=None):
            return super().get_cpu_copy(indices, mamba_indices, req_pool_index)

    BasaltPool.__name__ = f"Basalt{base.__name__}"
    return BasaltPool


POOLS = {"mha": _pool(host.MHATokenToKVPool), "mla": _pool(host.MLATokenToKVPool)}
