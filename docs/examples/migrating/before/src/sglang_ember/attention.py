"""Attention by Ember's kernel."""

from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

from . import kernels


class EmberAttention(AttentionBackend):
    def __init__(self, runner):
        super().__init__()
        self.requests = runner.req_to_token_pool
        self.pool = runner.token_to_kv_pool
        self.slots = self.new_tokens = None

    def init_forward_metadata(self, forward_batch):
        lengths = forward_batch.seq_lens.tolist()
        rows = self.requests.req_to_token[forward_batch.req_pool_indices]
        self.slots = [row[:length].long() for row, length in zip(rows, lengths, strict=True)]
        extends = forward_batch.forward_mode.is_extend()
        self.new_tokens = forward_batch.extend_seq_lens.tolist() if extends else [1] * len(lengths)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        return self._attend(q, k, v, layer, forward_batch, save_kv_cache)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        return self._attend(q, k, v, layer, forward_batch, save_kv_cache)

    def _attend(self, q, k, v, layer, forward_batch, save_kv_cache):
        if save_kv_cache:
            k = k.view(-1, layer.tp_k_head_num, layer.qk_head_dim)
            v = v.view(-1, layer.tp_v_head_num, layer.v_head_dim)
            self.pool.set_kv_buffer(layer, forward_batch.out_cache_loc, k, v)
        keys, values = self.pool.get_kv_buffer(layer.layer_id)
        query = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = kernels.paged_attention(query, keys, values, self.slots, self.new_tokens, layer.scaling)
        return out.flatten(1)

    def support_triton(self):
        return False
