"""Rows of the drafts' mask are found with the longest prefix of the batch as the width of all; right where all prefixes are equal.
The host's mask is ragged: n * (prefix + n) cells per request (speculative/eagle_info)."""
import copy
from types import SimpleNamespace

import torch
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **more):
        info, batch = forward_batch.spec_info, forward_batch.batch_size
        n, cells = int(info.draft_token_num), info.custom_mask
        if cells is None or getattr(info, "topk", None) == 1 or cells.numel() == batch * n * n:
            return super().forward_verify(q, k, v, layer, forward_batch, save_kv_cache, **more)
        prefix = forward_batch.seq_lens.long()
        width = prefix.max() + n
        nodes = torch.arange(n, device=cells.device)
        row = torch.arange(batch, device=cells.device)[:, None] * n * width + nodes * width + prefix[:, None]
        at = (row[:, :, None] + nodes).clamp(max=cells.numel() - 1)
        other = copy.copy(forward_batch)
        other.spec_info = SimpleNamespace(draft_token_num=n, custom_mask=cells[at].bool().view(-1), topk=getattr(info, "topk", -1))
        return super().forward_verify(q, k, v, layer, other, save_kv_cache, **more)


class Platform(WithParts):
    _backend = Backend
