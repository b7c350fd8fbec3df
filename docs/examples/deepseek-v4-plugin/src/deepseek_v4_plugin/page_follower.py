"""The lifecycle listener: counts what the engine does, and has a step's pages on the device before it begins."""

from __future__ import annotations

from typing import Any

from deepseek_v4_plugin.tags import HIERARCHICAL_POOL, READS_SLOT_MAP, TOKEN_POOL, has_tag
from sglang_platform.core import counter
from sglang_platform.core.registries import RegistryError

__all__ = ["FOLLOWER", "PageFollower"]

FOLLOWER = "v4_page_follower"
"""The id that it is registered under: the hierarchical pool is not built without."""

_events = {
    name: counter(f"deepseek_v4.events.{name}")
    for name in ("model_loaded", "forward_begin", "forward_end", "cache_flushed")
}


class PageFollower:
    """One per process. It knows pools and backends by their tags alone."""

    def __init__(self) -> None:
        self._runner: Any = None
        self._checked = False

    def on_model_loaded(self, model_runner: Any) -> None:
        _events["model_loaded"].add()
        self._runner = model_runner

    def on_forward_begin(self, forward_batch: Any) -> None:
        """Raises RegistryError where the pool is hierarchical and the attention backend reads it by slot."""
        _events["forward_begin"].add()
        pool = self._pool()
        if not has_tag(pool, HIERARCHICAL_POOL):
            return
        if not self._checked:
            self._check(pool)
        pool.bring(forward_batch, self._runner.req_to_token_pool.req_to_token)

    def on_forward_end(self, forward_batch: Any, output: Any) -> None:
        _events["forward_end"].add()

    def on_cache_flushed(self) -> None:
        _events["cache_flushed"].add()
        if has_tag(self._pool(), HIERARCHICAL_POOL):
            self._pool().forget()

    def query_report(self) -> dict[str, Any]:
        pool = self._pool()
        return {
            "deepseek_v4.pool": type(pool).__name__,
            "deepseek_v4.pool_kind": getattr(type(pool), "_pool_kind", None),
            "deepseek_v4.token_pool": has_tag(pool, TOKEN_POOL),
        }

    def _pool(self) -> Any:
        return getattr(self._runner, "token_to_kv_pool", None)

    def _check(self, pool: Any) -> None:
        backend = self._runner.attn_backend
        if not has_tag(backend, READS_SLOT_MAP):
            raise RegistryError(
                f"{type(backend).__name__} cannot read {type(pool).__name__}",
                why=f"its class is not tagged {READS_SLOT_MAP}: it would read a slot's row where it is not",
                fix="choose an --attention-backend that is, or leave DSV4_HOT_PAGES out",
            )
        self._checked = True
