"""In a mixed batch the one-token requests are taken for the first ones, as vLLM orders them; SGLang appends the running requests behind
the prefills (schedule_batch.py:3267 mix_with_running)."""
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    _ones = 0

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **more):
        self._ones = 0
        if forward_batch.forward_mode.is_mixed() and forward_batch.extend_seq_lens_cpu is not None:
            self._ones = list(forward_batch.extend_seq_lens_cpu).count(1)
        return super().forward_extend(q, k, v, layer, forward_batch, save_kv_cache, **more)

    def _extend(self, q, k, v, table, rows, lengths, prefix, new, out, scaling, cap, window, causal, sinks, slot_map):
        n = self._ones
        if n:
            self._decode(q[:n], k, v, table, rows[:n], lengths[:n], out[:n], scaling, cap, window, sinks, slot_map)
        if len(rows) > n:
            super()._extend(q[n:], k, v, table, rows[n:], lengths[n:], prefix[n:], new[n:], out[n:], scaling, cap, window, causal, sinks, slot_map)


class Platform(WithParts):
    _backend = Backend
