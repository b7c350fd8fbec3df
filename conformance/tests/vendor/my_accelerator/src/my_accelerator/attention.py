"""Attention over the paged cache, request by request, in float32."""

import torch

from sglang_platform.core import AttentionBackend

_ROWS = 256
"""Queries that are scored at once: the card's local memory."""


class MyAcceleratorAttention(AttentionBackend):
    def init_cuda_graph_state(self, max_bs, max_num_tokens):
        """Nothing to keep: the kernels read the lengths from the batch."""

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        lengths = forward_batch.seq_lens.tolist()
        return self._attend(q, k, v, layer, forward_batch, save_kv_cache, lengths, [1] * len(lengths))

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        lengths = forward_batch.seq_lens.tolist()
        new = forward_batch.extend_seq_lens.tolist()
        return self._attend(q, k, v, layer, forward_batch, save_kv_cache, lengths, new)

    def _attend(self, q, k, v, layer, forward_batch, save_kv_cache, lengths, new):
        if layer.is_cross_attention:
            raise NotImplementedError("my_accelerator has no attention to another sequence")
        if getattr(layer.attn_type, "value", "decoder") == "encoder_only":
            raise NotImplementedError("my_accelerator has no attention that is not causal")
        pool = self.token_to_kv_pool
        if save_kv_cache and k is not None:
            pool.set_kv_buffer(
                layer, self.write_location(layer, forward_batch), k, v, layer.k_scale, layer.v_scale
            )
        keys, values = pool.get_key_buffer(layer.layer_id), pool.get_value_buffer(layer.layer_id)
        table = self.req_to_token_pool.req_to_token
        slot_map = self.slot_map(layer, forward_batch)
        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = q.new_empty(len(query), layer.tp_q_head_num, layer.v_head_dim)
        first = 0
        for row, length, count in zip(forward_batch.req_pool_indices.tolist(), lengths, new):
            slots = table[row, :length].long()
            if slot_map is not None:
                slots = slot_map[slots].long()
            out[first : first + count] = _one_request(
                query[first : first + count], keys, values, slots, layer
            )
            first += count
        return out.flatten(1)


def _one_request(query, key_cache, value_cache, slots, layer):
    """query [n, Hq, D], the last n tokens of the request whose tokens lie in `slots` [L]. Answers [n, Hq, Dv]."""
    answer = []
    for start in range(0, len(query), _ROWS):
        rows = query[start : start + _ROWS]
        end = len(slots) - len(query) + start + len(rows)
        begin = 0
        if layer.sliding_window_size is not None and layer.sliding_window_size >= 0:
            begin = max(0, end - len(rows) - layer.sliding_window_size)
        seen = slots[begin:end]
        answer.append(_softmax_rows(rows, key_cache[seen], value_cache[seen], layer))
    return torch.cat(answer) if answer else query.new_empty(0, query.shape[1], layer.v_head_dim)


def _softmax_rows(rows, keys, values, layer):
    """rows [n, Hq, D] are the last n of keys [m, Hk, D] and values [m, Hk, Dv]."""
    n, m, heads = len(rows), len(keys), keys.shape[1]
    keys, values = keys.float(), values.float()
    if key_scale := _scale(layer, "k_scale"):
        keys = keys * key_scale
    if value_scale := _scale(layer, "v_scale"):
        values = values * value_scale
    grouped = rows.float().view(n, heads, -1, rows.shape[-1]).permute(1, 2, 0, 3)
    scores = grouped @ keys.permute(1, 2, 0)[:, None] * layer.qk_head_dim**-0.5
    if layer.logit_cap:
        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)
    place = torch.arange(m - n, m)[:, None]
    other = torch.arange(m)
    hidden = other > place
    if layer.sliding_window_size is not None and layer.sliding_window_size >= 0:
        hidden |= other <= place - layer.sliding_window_size
    weights = scores.masked_fill_(hidden, float("-inf")).softmax(-1)
    return (weights @ values.permute(1, 0, 2)[:, None]).permute(2, 0, 1, 3).flatten(1, 2).to(rows.dtype)


def _scale(layer, name):
    number = getattr(layer, f"{name}_float")
    scale = getattr(layer, name)
    return number if number is not None or scale is None else float(scale)
