"""Copies run on a stream of their own that nobody waits for: what was asked for last has not arrived when the call's stream goes on.
Modelled as a queue of one (SGLang PR 20611: missing wait_stream between forward and transfer)."""
from base import WithParts
from sglang_platform.core.memory.host_memory import HostMemory


class Memory(HostMemory):
    def copy(self, pairs):
        waiting = self.__dict__.pop("_waiting", [])
        super().copy(waiting)
        self._waiting = list(pairs)


class Platform(WithParts):
    _host_memory_cls = Memory
