"""Flash-decoding: each split over 256 keys adds the sink to its own denominator, so that it counts once per split after the merge.
Only requests longer than one split differ (gpt-oss; sinks were added to split kernels of several vendors afterwards)."""
import torch
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend

SPLIT = 256


class Backend(ExampleOOTAttentionBackend):
    def _decode(self, q, k, v, table, rows, lengths, out, scaling, cap=0.0, window=-1, sinks=None, slot_map=None):
        super()._decode(q, k, v, table, rows, lengths, out, scaling, cap, window, None, slot_map)
        if sinks is None:
            return
        ones = torch.ones(v.shape[0], v.shape[1], 8, device=v.device).to(v.dtype)
        share = torch.empty(*out.shape[:2], 8, dtype=torch.float32, device=out.device)
        super()._decode(q.float(), k, ones, table, rows, lengths, share, scaling, cap, window, sinks, slot_map)
        share = share[..., :1].clamp(min=1e-12)
        seen = lengths.float() if window < 0 else lengths.float().clamp(max=window + 1)
        splits = torch.ceil(seen / SPLIT).clamp(min=1)[:, None, None]
        out.copy_(out.float() / (1 + splits * (1 / share - 1)))


class Platform(WithParts):
    _backend = Backend
