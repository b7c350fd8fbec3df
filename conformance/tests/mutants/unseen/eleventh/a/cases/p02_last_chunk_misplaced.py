"""A copy from the CPU is written back in chunks; the start of a chunk is its number times its own length, wrong for the last, shorter one.
Only requests of more than cpu_offloading_chunk_size (8192) tokens have two."""
from base import WithParts
from sglang_platform.core.memory.rows import store_rows
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool


class Pool(ExampleOOTMHAPool):
    def load_cpu_copy(self, kv_cache_cpu, indices, mamba_indices=None, req_pool_index=None):
        for layer, chunks in enumerate(kv_cache_cpu):
            for at, parts in enumerate(chunks):
                n = parts[0].shape[0]
                where = indices[at * n : at * n + n]
                for buffer, part in zip(self._slot_buffers(layer), parts, strict=True):
                    store_rows(buffer, where, part.to(buffer.device))


class Platform(WithParts):
    _mha = Pool
