"""The lines of the token table are gathered once a step into a new tensor: a captured graph reads the one of its capture.
SGLang PR 26019 (page_table rebound at replay), vllm-ascend PR 8508 (block_tables rebound in full-graph replay)."""
import torch
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    def __init__(self, model_runner):
        super().__init__(model_runner)
        self._lines = self._source = None

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        super().init_forward_metadata_out_graph(forward_batch, in_capture)
        self._source = None
        if forward_batch.forward_mode.is_decode():
            self._source = self.req_to_token_pool.req_to_token
            self._lines = self._source[forward_batch.req_pool_indices.long().clamp(max=self._source.shape[0] - 1)]

    def _decode(self, q, k, v, table, rows, *more):
        if table is self._source and self._lines.shape[0] == q.shape[0]:
            table, rows = self._lines, torch.arange(q.shape[0], device=q.device)
        super()._decode(q, k, v, table, rows, *more)


class Platform(WithParts):
    _backend = Backend
