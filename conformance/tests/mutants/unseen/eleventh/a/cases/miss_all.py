"""The three missed defects in one platform, for one run of the whole suite."""
from base import WithParts
from g01_padding_on_new_bucket import Inputs as Lazy
from m02_first_view_kept import Saver
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner
import copy


class Inputs(Lazy):
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
    _saver = Saver
