"""Preparing a verify step adds the drafts to the batch's own lengths: `.long()` of an int64 tensor is that tensor.
SGLang NPU: ascend_backend.py:607, 624 does `seq_lens_cpu.int()` and `+=`, right only while the batch's are not int32."""
import copy

from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        super().init_forward_metadata_out_graph(forward_batch, in_capture)
        if forward_batch.forward_mode.is_target_verify():
            self._kv_lens = forward_batch.seq_lens.long()
            self._kv_lens += int(forward_batch.spec_info.draft_token_num)

    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **more):
        n = int(forward_batch.spec_info.draft_token_num)
        batch = copy.copy(forward_batch)
        batch.seq_lens = self._kv_lens - n
        return super().forward_verify(q, k, v, layer, batch, save_kv_cache, **more)


class Platform(WithParts):
    _backend = Backend
