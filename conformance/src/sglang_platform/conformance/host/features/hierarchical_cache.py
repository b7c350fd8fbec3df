"""Keys and values that left the device's pool and come back: from host memory, from a storage behind it."""

from __future__ import annotations

import time
from typing import Any

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.features.record import EngineLaunch, feature
from sglang_platform.conformance.host.features.running import Running

__all__: list[str] = []

_GROUP = "Memory"
_PROMPTS = 8
_LENGTH = 160
_NEW_TOKENS = 8
_POOL = 512
"""Slots on the device: fewer than half of what the prompts need."""

_FIX = "look at get_host_memory_cls(): copies to host memory and back, and that a read of a layer waits for its load"


def _launch(name: str, architecture: str = "llama", **more: Any) -> EngineLaunch:
    arguments = {
        "enable_hierarchical_cache": True,
        "hicache_ratio": 6.0,
        "max_total_tokens": _POOL,
        **more,
    }
    return EngineLaunch(f"hierarchical-cache-{name}", arguments, architecture)


def _ask_all(run: Running) -> list[int]:
    """Every prompt in turn: its tokens are right; answers with how many of each were found in a cache."""
    prompts = reference.prompts([_LENGTH] * _PROMPTS, seed=11)
    found: list[int] = []
    for number, (prompt, wanted) in enumerate(zip(prompts, run.expected(prompts, _NEW_TOKENS), strict=True)):
        (reply,) = run.engine.call("generate", input_ids=[prompt], max_new_tokens=_NEW_TOKENS)
        got = reply["output_ids"]
        expect(got == wanted, f"prompt {number} gives {got}, and transformers gives {wanted}")
        found.append(reply["cached_tokens"])
        time.sleep(0.2)  # the host writes to its memory beside the next request
    return found


def _comes_back(run: Running) -> None:
    run.engine.call("flush_cache")
    found = _ask_all(run)
    expect(not any(found), f"an engine with empty caches finds {found} tokens of the prompts in them")
    page = int(run.arguments["page_size"])
    whole = (_LENGTH - 1) // page * page
    found = _ask_all(run)
    expect(found == [whole] * _PROMPTS, f"of {whole} tokens of each prompt that can come back, {found} did")


@feature(
    group=_GROUP,
    title="hierarchical cache, write through",
    launch=_launch("through", hicache_write_policy="write_through"),
    fix=_FIX,
)
def hierarchical_cache(run: Running) -> None:
    """Eight prompts, of which the device holds three, are all hit when they come again, and give the same tokens."""
    _comes_back(run)


@feature(
    group=_GROUP,
    title="hierarchical cache, write back, page size 1",
    launch=_launch("back", hicache_write_policy="write_back", page_size=1),
    fix=_FIX,
)
def hierarchical_cache_write_back(run: Running) -> None:
    """The same where rows are written to host memory only when they are evicted, slot by slot."""
    _comes_back(run)


@feature(
    group=_GROUP,
    title="hierarchical cache, latent rows, pages first",
    launch=_launch(
        "latent", "deepseek_v3", hicache_mem_layout="page_first", hicache_write_policy="write_through"
    ),
    fix=_FIX,
)
def hierarchical_cache_latent(run: Running) -> None:
    """The same for a model with latent attention, with host memory laid out page by page."""
    _comes_back(run)


@feature(
    group=_GROUP,
    title="hierarchical cache with a storage of files",
    launch=_launch(
        "files",
        hicache_write_policy="write_through",
        hicache_storage_backend="file",
        hicache_storage_prefetch_policy="wait_complete",
        hicache_storage_backend_extra_config='{"prefetch_threshold": 16}',
    ),
    fix=_FIX,
)
def hierarchical_cache_files(run: Running) -> None:
    """After both caches were emptied, the files behind them are hit, and the tokens stay."""
    _ask_all(run)
    run.engine.call("flush_cache")
    found = _ask_all(run)
    expect(all(found), f"with both caches emptied, {found} tokens of the prompts were found in the files")
