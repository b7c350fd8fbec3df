"""Pages are copied out as if the layers of the targets took turns (k0, v0, k1, v1); the host lists all layers of keys, then those of values
(pool_host/mha.py). Right for one target (MLA) and for one layer."""
from base import WithParts
from sglang_platform.core.memory.host_memory import HostMemory


class Memory(HostMemory):
    def copy_pages_out(self, sources, targets, from_, to, page_size):
        n = len(targets)
        layers = len(sources) // n
        order = [which + layer * n for which in range(n) for layer in range(layers)]
        super().copy_pages_out([sources[i] for i in order], targets, from_, to, page_size)


class Platform(WithParts):
    _host_memory_cls = Memory
