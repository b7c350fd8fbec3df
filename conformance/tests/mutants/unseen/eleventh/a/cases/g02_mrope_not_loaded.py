"""A replay loads positions, and not mrope_positions: models with M-RoPE (Qwen2-VL) turn by the positions of the capture."""
import copy

from base import WithParts
from sglang_platform.core.graph.runner import DecodeInputs
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner


class Inputs(DecodeInputs):
    def load(self, forward_batch, bucket):
        batch = copy.copy(forward_batch)
        batch.mrope_positions = None
        super().load(batch, bucket)


class Runner(ExampleOOTGraphRunner):
    def capture(self):
        self.inputs.__class__ = Inputs
        super().capture()


class Platform(WithParts):
    _runner = Runner
