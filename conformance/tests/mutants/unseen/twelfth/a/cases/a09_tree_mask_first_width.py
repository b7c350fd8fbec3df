"""A tree of drafts is verified with the host's full mask, n rows of (prefix + n) cells per request. Where a request's
cells begin is found by its number times the width of the first request, so that with prefixes of different lengths all
requests but the first read another mask, and accept drafts that they should refuse. One request, equal prefixes and the
mask of n * n cells are right.
follows: kindred to flashinfer-ai/flashinfer#3503, NVIDIA/TensorRT-LLM#13426 (mask rows found by a batch-wide width)
level: kernels
"""

from __future__ import annotations

import copy

import torch

from sglang_platform.conformance.reference.attention import ReferenceAttention
from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform


class Attention(ReferenceAttention):
    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):
        spec = forward_batch.spec_info
        n, count = int(spec.draft_token_num), forward_batch.batch_size
        cells = spec.custom_mask
        if cells is not None and getattr(spec, "topk", None) != 1 and cells.numel() != count * n * n:
            prefix = forward_batch.seq_lens.long()
            width = int(prefix[0]) + n
            node = torch.arange(n)
            row = torch.arange(count)[:, None] * n * width + node * width + int(prefix[0])
            mask = cells[(row[:, :, None] + node).clamp(max=cells.numel() - 1)].bool()
            mask = mask | torch.eye(n, dtype=torch.bool)
            forward_batch = copy.copy(forward_batch)
            if hasattr(spec, "_replace"):
                forward_batch.spec_info = spec._replace(custom_mask=mask.view(-1))
            else:
                forward_batch.spec_info = copy.copy(spec)
                forward_batch.spec_info.custom_mask = mask.view(-1)
        return super().forward_verify(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)


class Platform(ReferencePlatform):
    attention_features = (*ReferencePlatform.attention_features, "draft_tree")

    def get_attention_backends(self):
        return {NAME: Attention}
