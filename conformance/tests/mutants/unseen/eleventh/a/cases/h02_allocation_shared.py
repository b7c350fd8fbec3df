"""Page-locked allocations are cached by shape and type and lent twice: the host copies of keys and of values, or of a model and its draft, are
one memory (pool_host/mha.py:1394, 1402 allocate k and v one after the other)."""
from base import WithParts
from sglang_platform.core.memory.host_memory import HostMemory


class Memory(HostMemory):
    def allocate(self, shape, dtype):
        kept = self.__dict__.setdefault("_kept", {})
        key = tuple(shape), dtype
        if key not in kept:
            kept[key] = super().allocate(shape, dtype)
        return kept[key]


class Platform(WithParts):
    _host_memory_cls = Memory
