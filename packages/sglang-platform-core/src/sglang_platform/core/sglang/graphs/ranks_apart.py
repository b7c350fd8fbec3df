"""Decode graphs under data-parallel attention: each rank attends to its own requests, all share the other layers.

All ranks replay, at the same time, the bucket of the rank with the most requests; a rank without requests replays
padding. They agree beforehand: SGLang's scheduler lets the ranks vote on each step and sends each the request counts of
the others (`managers/scheduler_components/dp_attn.py`). The decision must not depend on anything that only one rank
knows.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.registries import events
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.versions import facts

__all__ = ["RanksApart", "attend_apart", "why_no_graphs"]


def attend_apart(arguments: Any) -> bool:
    """True if this worker's model has data-parallel attention. Without arguments no model is built: False."""
    if arguments is None:
        return False
    if facts().counts_attention_ranks and arguments.attn_dp_size > 1:
        return True
    return bool(arguments.enable_dp_attention)


def why_no_graphs(arguments: Any, platform: Any) -> str | None:
    """Why ranks under data-parallel attention decode without graphs; None if they use graphs."""
    if not facts().graphs_of_ranks_apart:
        return f"on SGLang {facts().version} they were not tried"
    if platform.device_type == "cpu":
        return "on the CPU's device type SGLang gives a rank without requests no graph to replay"
    if arguments.speculative_algorithm is not None:
        return "steps that verify drafts are not captured for them"
    if events.is_heard("query_run_eagerly"):
        return (
            "a listener asks for steps without graphs (query_run_eagerly), and it is not asked on every rank"
        )
    if not load("sglang.srt.utils.common:require_mlp_tp_gather")():
        return "their experts exchange rows in another way than by gathering those of all ranks"
    return None


class RanksApart:
    """The data-parallel fields of one runner's static batches: every rank has as many rows as the bucket."""

    def __init__(self, device: Any) -> None:
        from sglang.srt.runtime_context import get_parallel

        self.device, self.ranks = device, int(get_parallel().num_dp_ranks)

    def fields(self, rows: int) -> dict[str, Any]:
        """The data-parallel fields of a static batch of `rows` rows."""
        import torch
        from sglang.srt.layers.dp_attention import DpPaddingMode

        counts = [rows] * self.ranks
        return {
            "global_num_tokens_cpu": counts,
            "global_num_tokens_gpu": torch.tensor(counts, dtype=torch.int64).to(self.device),
            "global_num_tokens_for_logprob_gpu": torch.tensor(counts, dtype=torch.int64).to(self.device),
            "global_dp_buffer_len": sum(counts),
            "dp_padding_mode": DpPaddingMode.MAX_LEN,
            "can_run_decode_cuda_graph": True,
        }

    @staticmethod
    def announce(forward_batch: Any) -> None:
        """Set the data-parallel state that the host's layers read, before the model runs on a static batch."""
        from sglang.srt.layers import dp_attention

        forward_batch.dp_local_start_pos = forward_batch.dp_local_num_tokens = None
        dp_attention.set_dp_buffer_len_from_batch(forward_batch)
        dp_attention.set_is_extend_in_batch(False)

    @staticmethod
    def agreed(forward_batch: Any) -> bool:
        """True if all ranks decode or are idle."""
        return bool(
            forward_batch.forward_mode.is_decode_or_idle() and forward_batch.can_run_decode_cuda_graph
        )

    @staticmethod
    def most_rows(forward_batch: Any) -> int:
        """The number of requests of the rank with the most."""
        return int(max(forward_batch.original_global_num_tokens_cpu or [forward_batch.batch_size]))
