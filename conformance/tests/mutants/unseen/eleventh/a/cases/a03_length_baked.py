"""The bound of the kernel's loop over keys is a number computed outside the graph, and is baked into the capture.
SGLang NPU: actual_seq_lengths is a host list that needs graph.update at each replay (ascend_backend.py:867, 1102)."""
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend

BLOCK = 32


class Backend(ExampleOOTAttentionBackend):
    _bound = None
    _inside = False

    def _prepared(self, layer, forward_batch):
        self._inside = True
        try:
            return super()._prepared(layer, forward_batch)
        finally:
            self._inside = False

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        super().init_forward_metadata_out_graph(forward_batch, in_capture)
        self._bound = None
        if forward_batch.forward_mode.is_decode() and not self._inside:
            longest = int(forward_batch.seq_lens.max()) if forward_batch.batch_size else 0
            self._bound = -(-longest // BLOCK) * BLOCK

    def _decode(self, q, k, v, table, rows, lengths, *more):
        if self._bound is not None:
            lengths = lengths.clamp(max=self._bound)
        super()._decode(q, k, v, table, rows, lengths, *more)


class Platform(WithParts):
    _backend = Backend
