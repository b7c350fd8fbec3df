"""One engine, one configuration: the same tokens as transformers, and the proof of which parts made them."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.architectures import ARCHITECTURES
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess

__all__ = ["Configuration", "EqualityResult", "all_configurations", "pairwise_configurations", "run"]

PROMPT_LENGTHS = (1, 17, 64, 300, 1500)
NEW_TOKENS = 32
CONCURRENT = 16
SHARED_PREFIX = 160
CHUNK = 256

_SINGLE = reference.prompts(PROMPT_LENGTHS)
_TOGETHER = reference.prompts(
    [SHARED_PREFIX + 5 * i for i in range(1, CONCURRENT + 1)], seed=1, shared_prefix=SHARED_PREFIX
)


@dataclass(frozen=True)
class Configuration:
    """One point of the matrix."""

    architecture: str = "llama"
    page_size: int = 16
    graph_runner: bool = True
    chunked_prefill: bool = False

    def __str__(self) -> str:
        runner = "graphs" if self.graph_runner else "eager"
        prefill = f"chunks of {CHUNK}" if self.chunked_prefill else "whole prompts"
        return f"{self.architecture}, page size {self.page_size}, {runner}, {prefill}"

    def engine_arguments(self, checkpoint: Path) -> dict[str, Any]:
        return {
            "model_path": str(checkpoint),
            "page_size": self.page_size,
            "disable_cuda_graph": not self.graph_runner,
            "chunked_prefill_size": CHUNK if self.chunked_prefill else 4096,
            "torch_compile_max_bs": CONCURRENT,
        }

    def expected_counters(self, platform: str) -> tuple[set[str], set[str]]:
        """The proof counters that must be nonzero, and those that must be exactly zero."""
        parts = {
            f"{platform}.kv_pool.stores",
            f"{platform}.attention.extends",
            f"{platform}.attention.decodes",
        }
        parts.add(f"{platform}.fused_ops.calls")
        paged = {f"{platform}.paged_allocator.extends", f"{platform}.paged_allocator.decodes"}
        graphs = {f"{platform}.graph.captures", f"{platform}.graph.replays"}
        zero = {
            "host.attention.calls",
            "host.kv_pool.stores",
            "host.paged_allocator.calls",
            "host.graph.replays",
            f"{platform}.kv_pool.moves",
        }
        (zero if self.page_size == 1 else parts).update(paged)
        (parts if self.page_size == 1 else zero).add("host.token_allocator.calls")
        (parts if self.graph_runner else zero).update(graphs)
        return parts, zero


def all_configurations() -> list[Configuration]:
    """The full matrix."""
    axes = (ARCHITECTURES, (1, 16, 64), (True, False), (True, False))
    return [Configuration(*point) for point in itertools.product(*axes)]


def pairwise_configurations() -> list[Configuration]:
    """A subset in which every pair of values of two axes occurs at least once (greedy, in a fixed order)."""
    candidates = all_configurations()
    open_pairs = {pair for c in candidates for pair in _pairs(c)}
    chosen = []
    while open_pairs:
        best = max(candidates, key=lambda c: len(open_pairs & _pairs(c)))
        open_pairs -= _pairs(best)
        chosen.append(best)
    return chosen


def _pairs(c: Configuration) -> set[tuple[Any, ...]]:
    values = enumerate((c.architecture, c.page_size, c.graph_runner, c.chunked_prefill))
    return set(itertools.combinations(values, 2))


@dataclass
class EqualityResult:
    """What one run showed. `failures` is empty when all held."""

    configuration: Configuration
    failures: list[str] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    chunks: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0

    def check(self, holds: bool, failure: str) -> None:
        if not holds:
            self.failures.append(failure)


def run(
    configuration: Configuration,
    *,
    platform: str,
    folder: Path,
    on_line: Callable[[str], None] | None = None,
) -> EqualityResult:
    """Serve one configuration and check tokens, prefix cache, abort, flush and proof counters."""
    start = time.perf_counter()
    outcome = EqualityResult(configuration)
    checkpoint = make_checkpoint(folder / configuration.architecture, configuration.architecture)
    for asked in (_SINGLE, _TOGETHER):
        reference.greedy(checkpoint, asked, NEW_TOKENS)  # now: an idle engine polls, and would slow it down
    arguments = configuration.engine_arguments(checkpoint)
    with EngineProcess(platform, arguments, on_line=on_line) as engine:
        for check in (_single_prompts, _concurrent_prompts, _abort_and_flush, _proof):
            check(engine, checkpoint, platform, outcome)
    outcome.seconds = time.perf_counter() - start
    return outcome


def _single_prompts(engine: EngineProcess, checkpoint: Path, platform: str, outcome: EqualityResult) -> None:
    expected = reference.greedy(checkpoint, _SINGLE, NEW_TOKENS)
    layers = _layers(checkpoint)
    for prompt, tokens in zip(_SINGLE, expected, strict=True):
        before = engine.counters()[f"{platform}.attention.extends"]
        (reply,) = engine.call("generate", input_ids=[prompt], max_new_tokens=NEW_TOKENS)
        batches = (engine.counters()[f"{platform}.attention.extends"] - before) // layers
        _same(outcome, f"prompt of {len(prompt)} tokens", reply["output_ids"], tokens)
        if len(prompt) == max(PROMPT_LENGTHS):
            outcome.chunks = batches
    if outcome.configuration.chunked_prefill:
        outcome.check(
            outcome.chunks >= 6,
            f"prefill of {max(PROMPT_LENGTHS)} tokens took {outcome.chunks} chunks, not 6 or more",
        )
    else:
        outcome.check(
            outcome.chunks == 1,
            f"prefill of {max(PROMPT_LENGTHS)} tokens took {outcome.chunks} batches, not 1",
        )


def _concurrent_prompts(
    engine: EngineProcess, checkpoint: Path, platform: str, outcome: EqualityResult
) -> None:
    expected = reference.greedy(checkpoint, _TOGETHER, NEW_TOKENS)
    # One request fills the prefix cache; requests that start together cannot hit what none has stored yet.
    engine.call("generate", input_ids=_TOGETHER[:1], max_new_tokens=1)
    replies = engine.call("generate", input_ids=_TOGETHER, max_new_tokens=NEW_TOKENS)
    for i, (reply, tokens) in enumerate(zip(replies, expected, strict=True)):
        _same(outcome, f"concurrent request {i}", reply["output_ids"], tokens)
        cached = reply["cached_tokens"]
        page = outcome.configuration.page_size
        outcome.check(
            cached >= SHARED_PREFIX // page * page, f"concurrent request {i} hit {cached} cached tokens"
        )
        outcome.cached_tokens += cached


def _abort_and_flush(engine: EngineProcess, checkpoint: Path, platform: str, outcome: EqualityResult) -> None:
    before = engine.gauges()
    start = before["available"] + before["evictable"]
    (prompt,) = reference.prompts([40], seed=2)
    ended = engine.call("abort", input_ids=prompt, after_tokens=5)
    outcome.check(
        ended["finish_reason"]["type"] == "abort", f"the aborted request ended with {ended['finish_reason']}"
    )
    after = _settled(engine, lambda g: g["available"] + g["evictable"] == start)
    kept = after["available"] + after["evictable"]
    outcome.check(kept == start, f"after an abort {kept} slots are available or evictable, before it {start}")
    engine.call("flush_cache")
    flushed = _settled(engine, lambda g: g["available"] == g["size"])
    clean = flushed["available"] == flushed["size"] and flushed["evictable"] == 0
    outcome.check(clean, f"after a flush not every slot is available: {flushed}")


def _settled(engine: EngineProcess, done: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    # The reply to an abort comes before the scheduler has released the request.
    for _ in range(50):
        gauges = engine.gauges()
        if done(gauges):
            break
        time.sleep(0.1)
    return gauges


def _proof(engine: EngineProcess, checkpoint: Path, platform: str, outcome: EqualityResult) -> None:
    outcome.counters = engine.counters()
    nonzero, zero = outcome.configuration.expected_counters(platform)
    for name in sorted(nonzero):
        outcome.check(outcome.counters.get(name, 0) > 0, f"counter {name} is zero: that part did not run")
    for name in sorted(zero):
        count = outcome.counters.get(name, 0)
        outcome.check(count == 0, f"counter {name} is {count}, and should be zero")


def _same(outcome: EqualityResult, what: str, got: list[int], expected: list[int]) -> None:
    first = next((i for i, (a, b) in enumerate(itertools.zip_longest(got, expected)) if a != b), None)
    outcome.check(first is None, f"{what}: token {first} differs; got {got}, transformers {expected}")


def _layers(checkpoint: Path) -> int:
    return int(json.loads((checkpoint / "config.json").read_text())["num_hidden_layers"])
