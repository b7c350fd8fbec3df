"""Attention with the vendor's kernels; here as plain torch."""

from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend


class AuroraAttentionBackend(AttentionBackend):
    def __init__(self, model_runner):
        super().__init__()
        self.model_runner = model_runner
        self.inner = TorchNativeAttnBackend(model_runner)

    def init_forward_metadata(self, forward_batch):
        self.inner.init_forward_metadata(forward_batch)

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        self.inner.init_forward_metadata(forward_batch)

    def init_cuda_graph_state(self, max_bs, max_num_tokens):
        self.max_bs = max_bs

    def get_cuda_graph_seq_len_fill_value(self):
        return 1

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        return self.inner.forward_decode(q, k, v, layer, forward_batch, save_kv_cache)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        return self.inner.forward_extend(q, k, v, layer, forward_batch, save_kv_cache)

    def support_triton(self):
        return False
