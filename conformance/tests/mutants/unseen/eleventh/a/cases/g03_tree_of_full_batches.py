"""The drafts' mask is loaded only where it has the shape of the bucket: a padded batch is verified with the tree of the last full one."""
from base import WithParts
from sglang_platform.core.graph.runner import DecodeInputs
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner


class Inputs(DecodeInputs):
    def load(self, forward_batch, bucket):
        n = forward_batch.batch_size
        kept = None if self.tree is None or n == bucket else self.tree[:n].clone()
        super().load(forward_batch, bucket)
        if kept is not None:
            self.tree[:n] = kept


class Runner(ExampleOOTGraphRunner):
    def capture(self):
        self.inputs.__class__ = Inputs
        super().capture()


class Platform(WithParts):
    _runner = Runner
