"""The page table of a decode step is kept while the batch size and the number of pages of the longest request stay.
A request that leaves for another, or one that is not the longest and takes a page, reads the old pages. Vendors save the upload of the
block table this way (vLLM plugins keep block tables per persistent batch; SGLang rebuilds batches)."""
import torch
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    def __init__(self, model_runner):
        super().__init__(model_runner)
        self._key = self._pages = self._source = None
        self._in_capture = False

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        super().init_forward_metadata_out_graph(forward_batch, in_capture)
        known = forward_batch.seq_lens_cpu
        if in_capture or known is None or not forward_batch.forward_mode.is_decode() or not len(known):
            self._source = None
            return
        self._source = self.req_to_token_pool.req_to_token
        size = self.token_to_kv_pool.page_size
        key = (forward_batch.batch_size, -(-int(known.max()) // size))
        if key != self._key:
            self._key = key
            self._pages = self._source[forward_batch.req_pool_indices.long()][:, ::size].long() // size

    def _decode(self, q, k, v, table, rows, *more):
        if table is self._source and self._pages.shape[0] == q.shape[0]:
            size = self.token_to_kv_pool.page_size
            at = torch.arange(table.shape[1], device=q.device)
            table = (self._pages[:, at // size] * size + at % size).int()
            rows = torch.arange(q.shape[0], device=q.device)
        super()._decode(q, k, v, table, rows, *more)


class Platform(WithParts):
    _backend = Backend
