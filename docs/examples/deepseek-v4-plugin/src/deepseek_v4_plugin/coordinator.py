"""The request coordinator: what the scheduler lets in always fits the pool's hot pages."""

from __future__ import annotations

from typing import Any

from deepseek_v4_plugin.tags import HIERARCHICAL_POOL, has_tag
from sglang_platform.core import counter
from sglang_platform.core.registries import RegistryError

__all__ = ["PageCoordinator"]

_admitted = counter("deepseek_v4.coordinator.requests")
_batches = counter("deepseek_v4.coordinator.batches")
_finished = counter("deepseek_v4.coordinator.finished")

_MOVES_ROWS = {
    "enable_hierarchical_cache": (False, "--enable-hierarchical-cache"),
    "disaggregation_mode": ("null", "--disaggregation-mode"),
    "speculative_algorithm": (None, "--speculative-algorithm"),
}
"""Arguments under which SGLang itself moves rows of the pool by their slots: the value without, and the option."""


class PageCoordinator:
    """One per scheduler. Raises RegistryError at launch where a batch could need more pages than are hot."""

    def __init__(self, scheduler: Any) -> None:
        pool = scheduler.token_to_kv_pool_allocator.get_kvcache()
        if has_tag(pool, HIERARCHICAL_POOL):
            _refuse_what_moves_rows(scheduler.server_args)
            requests, tokens = scheduler.max_running_requests, scheduler.model_config.context_len
            needed = requests * -(-tokens // pool.page_size) + 1
            if pool.hot_pages < needed:
                raise RegistryError(
                    f"{pool.hot_pages} hot pages are too few",
                    why=f"{requests} requests of {tokens} tokens take {needed} pages of {pool.page_size}, that of the "
                    "padding among them",
                    fix=f"set DSV4_HOT_PAGES={needed}, or lower --max-running-requests or --context-length",
                )

    def on_request_admitted(self, req: Any) -> None:
        _admitted.add()

    def on_batch_done(self, batch: Any, result: Any) -> None:
        _batches.add()
        _finished.add(sum(req.finished() for req in batch.reqs))


def _refuse_what_moves_rows(server_args: Any) -> None:
    for name, (without, option) in _MOVES_ROWS.items():
        if getattr(server_args, name, without) != without:
            raise RegistryError(
                f"{option} cannot be served with the hierarchical pool",
                why="SGLang moves rows of the pool by their slots there, and a slot's page may be behind",
                fix=f"leave out {option} or DSV4_HOT_PAGES",
            )
