"""Padded rows are reset only when the bucket changes: after a batch of 4, one of 3 in the bucket of 4 replays the fourth row with the slot of
the request that has left, and writes over whoever has that slot now."""
from base import WithParts
from sglang_platform.core.graph.runner import DecodeInputs
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner


class Inputs(DecodeInputs):
    _last = 0

    def load(self, forward_batch, bucket):
        n = forward_batch.batch_size
        super().load(forward_batch, bucket if bucket != self._last else n)
        self._last = bucket


class Runner(ExampleOOTGraphRunner):
    def capture(self):
        self.inputs.__class__ = Inputs
        super().capture()


class Platform(WithParts):
    _runner = Runner
