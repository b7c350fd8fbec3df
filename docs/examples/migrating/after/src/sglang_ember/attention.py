"""Attention by Ember's kernel."""

from sglang_platform.core import AttentionBackend, counter

from . import kernels

_calls = counter("ember.attention.calls")


class EmberAttention(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        lengths = forward_batch.seq_lens.tolist()
        rows = self.req_to_token_pool.req_to_token[forward_batch.req_pool_indices]
        self.slots = [row[:length].long() for row, length in zip(rows, lengths, strict=True)]
        extends = forward_batch.forward_mode.is_extend()
        self.new_tokens = forward_batch.extend_seq_lens.tolist() if extends else [1] * len(lengths)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        return self._attend(q, k, v, layer, forward_batch, save_kv_cache)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        return self._attend(q, k, v, layer, forward_batch, save_kv_cache)

    def _attend(self, q, k, v, layer, forward_batch, save_kv_cache):
        pool = self.token_to_kv_pool
        if save_kv_cache:
            k = k.view(-1, layer.tp_k_head_num, layer.qk_head_dim)
            v = v.view(-1, layer.tp_v_head_num, layer.v_head_dim)
            pool.set_kv_buffer(layer, self.write_location(layer, forward_batch), k, v)
        keys, values = pool.get_kv_buffer(layer.layer_id)
        query = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = kernels.paged_attention(query, keys, values, self.slots, self.new_tokens, layer.scaling)
        _calls.add()
        return out.flatten(1)
