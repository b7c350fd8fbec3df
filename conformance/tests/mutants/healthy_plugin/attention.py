import torch

from sglang_platform.core import DiffusionAttention


class Attention(DiffusionAttention):
    def forward(self, query, key, value, attn_metadata):
        q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        group = self.num_heads // self.num_kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = q.float() @ k.float().transpose(2, 3) * self.softmax_scale
        if self.causal:
            rows, columns = scores.shape[2:]
            later = torch.ones(rows, columns, dtype=torch.bool).triu(columns - rows + 1)
            scores = scores.masked_fill(later, float("-inf"))
        return (scores.softmax(-1) @ v.float()).transpose(1, 2).to(query.dtype)
