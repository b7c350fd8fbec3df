"""Slots are joined to runs by the sources alone; where the targets are scattered, a run is written behind its first target."""
from base import WithParts
from sglang_platform.core.memory.host_memory import HostMemory


class Memory(HostMemory):
    def copy_slots(self, sources, targets, from_, to):
        source, target = from_.tolist(), to.tolist()
        if not source:
            return
        starts = [i for i in range(len(source)) if i == 0 or source[i] != source[i - 1] + 1]
        runs = [(source[a], target[a], b - a) for a, b in zip(starts, [*starts[1:], len(source)], strict=True)]
        most = [t.shape[0] for t in targets]
        self.copy(
            (t[b : b + n], s[a : a + t[b : b + n].shape[0]])
            for s, t, _ in zip(sources, targets, most, strict=True)
            for a, b, n in runs
        )


class Platform(WithParts):
    _host_memory_cls = Memory
