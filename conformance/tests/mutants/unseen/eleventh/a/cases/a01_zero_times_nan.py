"""Decode with static shapes (for graphs) reads the whole line of the table and multiplies what is unseen by a weight of 0: 0 * NaN.
SGLang PR 32477: padded rows leave NaN in the reserved slot, tiles load it before masking."""
import torch
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    def _decode(self, q, k_buffer, v_buffer, table, rows, lengths, out, scaling, cap=0.0, window=-1, sinks=None, slot_map=None):
        batch, heads, dim = q.shape
        kv_heads = k_buffer.shape[1]
        slots = table[rows.long()].long()
        if slot_map is not None:
            slots = slot_map[slots].long()
        positions = torch.arange(slots.shape[1], device=q.device)
        last = lengths.long()[:, None]
        seen = positions < last
        if window >= 0:
            seen = seen & (positions >= last - 1 - window)
        query = q.float().view(batch, kv_heads, heads // kv_heads, dim) * scaling
        scores = torch.einsum("bhgd,bthd->bhgt", query, k_buffer[slots].float())
        if cap > 0:
            scores = cap * torch.tanh(scores / cap)
        scores = scores.masked_fill(~seen[:, None, None], float("-inf"))
        if sinks is not None:
            extra = sinks.float().view(1, kv_heads, -1, 1).expand(batch, -1, -1, 1)
            weights = torch.cat((scores, extra), -1).softmax(-1)[..., :-1]
        else:
            weights = scores.softmax(-1)
        weights = weights.masked_fill((last <= 0)[..., None, None], 0.0)
        result = torch.einsum("bhgt,bthd->bhgd", weights, v_buffer[slots].float())
        out.copy_(result.reshape(batch, heads, -1))


class Platform(WithParts):
    _backend = Backend
