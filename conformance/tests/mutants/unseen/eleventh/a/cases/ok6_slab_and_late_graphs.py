"""Healthy: host memory from one slab, a saver that always says that memory has moved, graphs captured when a bucket is first used."""
import bisect
from functools import partial

import torch
from base import WithParts
from sglang_platform.core.graph.runner import CapturedBatch
from sglang_platform.core.memory.host_memory import HostMemory
from sglang_platform.core.memory.memory_saver import MemorySaver
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner


class Memory(HostMemory):
    def allocate(self, shape, dtype):
        elements = 1
        for n in shape:
            elements *= n
        slab = super().allocate((elements + 128,), dtype)
        return slab[64 : 64 + elements].view(tuple(shape))


class Saver(MemorySaver):
    def resume(self, tag):
        super().resume(tag)
        return True


class Runner(ExampleOOTGraphRunner):
    def capture(self):
        self.inputs.clear()
        self.captured.clear()

    def execute(self, forward_batch, pp_proxy_tensors=None):
        bucket = self.capture_bs[bisect.bisect_left(self.capture_bs, self._most_rows(forward_batch))]
        if bucket not in self.captured:
            self.inputs.clear()
            batch = self._static_batch(bucket)
            self._prepare(batch, in_capture=True)
            self._run_model(batch)
            graph, output = self.record(partial(self._run_model, batch))
            self.captured[bucket] = CapturedBatch(graph, batch, output)
        return super().execute(forward_batch, pp_proxy_tensors)


class Platform(WithParts):
    _host_memory_cls = Memory
    _saver = Saver
    _runner = Runner
