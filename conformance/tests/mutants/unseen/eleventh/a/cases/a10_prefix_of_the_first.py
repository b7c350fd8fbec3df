"""Whether a prefill has cached prefixes is asked of its first request alone; without one all attend to their new tokens only (the ragged kernel)."""
import torch
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    _cpu = None

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **more):
        self._cpu = forward_batch.extend_prefix_lens_cpu, forward_batch.extend_seq_lens_cpu
        return super().forward_extend(q, k, v, layer, forward_batch, save_kv_cache, **more)

    def _extend(self, q, k, v, table, rows, lengths, prefix, new, *more):
        before, count = self._cpu
        if before and count and len(before) == len(rows) and before[0] == 0 and any(before):
            lines = torch.zeros(len(rows), max(count), dtype=table.dtype, device=table.device)
            for i, (start, n) in enumerate(zip(before, count, strict=True)):
                lines[i, :n] = table[rows[i].long(), start : start + n]
            table, rows = lines, torch.arange(len(rows), device=rows.device)
            lengths, prefix = new.to(lengths.dtype), torch.zeros_like(prefix)
        super()._extend(q, k, v, table, rows, lengths, prefix, new, *more)


class Platform(WithParts):
    _backend = Backend
