"""The CUDA and ROCm packages whole, without a GPU: unmodified SGLang on CPU tensors, every kernel interpreted.

A prompt of one token, one of a page and a bit, one of two chunks; the same prefix again; decodes beside a prefill. The
tokens are those of transformers (with keys and values rounded, where the cache is of 8 bits), and no part of SGLang's
stood in for the package's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.adapters import make_adapter, merge_adapter
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.distribution import path_with, write_distribution
from sglang_platform.conformance.host.draft_model import make_eagle_draft
from sglang_platform.conformance.host.engine import EngineProcess
from sglang_platform.conformance.host.quantised_checkpoint import make_quantised

pytestmark = [
    pytest.mark.engine,
    pytest.mark.host,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        "SGLANG_PLATFORM_LONG" not in os.environ, reason="minutes each: nox -s interpreted_engines"
    ),
]

INTERPRETED = Path(__file__).parent / "interpreted"

PAGE, CHUNK, NEW_TOKENS = 16, 64, 6
ALONE = reference.prompts((1, 17, 90))
SHARED = 2 * PAGE
STRETCHED = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 2048,
}
TOGETHER = reference.prompts((70, 40, 8), seed=1, shared_prefix=SHARED)


def _with_keys_in_8_bits(checkpoint: Path, asked: Sequence[list[int]], new_tokens: int) -> list[list[int]]:
    sys.path.insert(0, str(INTERPRETED))
    import rounded_cache  # with transformers, which takes seconds

    return rounded_cache.greedy(checkpoint, asked, new_tokens)


@dataclass(frozen=True)
class Served:
    """A model, the arguments of its engine, what answers the same prompts with the same tokens, the fields in which
    its configuration differs from the architecture's, the format of its quantised weights."""

    architecture: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expected: Callable[[Path, Sequence[list[int]], int], list[list[int]]] = reference.greedy
    fields: Mapping[str, Any] = field(default_factory=dict)
    weights: str = ""


SERVED = {
    "llama": Served("llama"),
    "8-bit cache": Served("llama", {"kv_cache_dtype": "fp8_e4m3"}, _with_keys_in_8_bits),
    # On the CPU SGLang has rotary embeddings of DeepSeek's for a stretched context only, which its models have.
    "latent rows": Served("deepseek_v3", fields={"rope_parameters": STRETCHED}),
    "sinks and windows": Served("gpt_oss", {"disable_hybrid_swa_memory": True}),
    "norms of heads": Served("qwen3"),
    "windows and caps": Served("gemma2_capped", {"disable_hybrid_swa_memory": True}),
    "experts": Served("qwen3_moe"),
    "weights in fp8": Served("llama", weights="fp8"),
    "weights in int8": Served("llama", weights="int8"),
}
DRAFTS = {
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": 2,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 3,
}


@pytest.fixture(params=["cuda", "rocm"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    return _found(request.param, tmp_path)


def _found(name: str, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """The name of the platform, and the variables with which a process finds it."""
    write_distribution(
        tmp_path,
        "interpreted-platforms",
        {
            "sglang.srt.platforms": f"interpreted_{name} = interpreted_plugin:{name}",
            "sglang_platform.contract": f"interpreted_{name} = v1",
        },
    )
    return (
        f"interpreted_{name}",
        {
            "PYTHONPATH": os.pathsep.join((str(INTERPRETED), path_with(tmp_path))),
            "TRITON_INTERPRET": "1",
            "SGLANG_EXAMPLE_OOT_DEVICE": "cpu",
            "OMP_NUM_THREADS": "1",
        },
    )


@pytest.mark.parametrize("served", SERVED.values(), ids=list(SERVED))
def test_an_engine_on_interpreted_kernels(
    package: tuple[str, dict[str, str]], served: Served, models: Path
) -> None:
    counts = _counts_of_the_right_tokens(*package, served, models)
    _served_by_the_package(counts)
    print(counts)


def test_adapters_and_grammars(package: tuple[str, dict[str, str]], models: Path) -> None:
    platform, environment = package
    checkpoint = make_checkpoint(models / "llama", "llama")
    adapter = make_adapter(models / "llama-lora-small", checkpoint, rank=4, alpha=8, seed=1)
    merged = merge_adapter(models / "llama-merged-small", checkpoint, adapter)
    prompts = reference.prompts((40, 9), seed=8)
    wanted = [
        reference.greedy(merged, prompts[:1], NEW_TOKENS),
        reference.greedy(checkpoint, prompts[1:], NEW_TOKENS),
    ]
    arguments = {
        "enable_lora": True,
        "lora_paths": [f"small={adapter}"],
        "max_lora_rank": 4,
        "grammar_backend": "xgrammar",
        **_arguments(checkpoint),
    }
    with EngineProcess(platform, arguments, environment=environment) as engine:
        got = engine.call(
            "generate_adapted", input_ids=prompts, lora_path=["small", None], max_new_tokens=NEW_TOKENS
        )
        assert got == [*wanted[0], *wanted[1]]
        (reply,) = engine.call(
            "generate_constrained", input_ids=prompts[1:], max_new_tokens=24, regex="(red|blue)-[0-9]{3}"
        )
        assert re.fullmatch("(red|blue)-[0-9]{3}", reply["text"]), reply
        _served_by_the_package(engine.counters())


def test_keys_are_stored_with_their_positions(tmp_path: Path, models: Path) -> None:
    """SGLang's models ask the rotary op to store keys and values, and the attention to store nothing: where
    `is_hip` says yes over any cache. (On CUDA over bfloat16 only, which the interpreter as it comes computes wrong.)"""
    platform, environment = _found("rocm", tmp_path)
    environment["INTERPRETED_STANDS_FOR"] = "hip"
    counts = _counts_of_the_right_tokens(platform, environment, SERVED["sinks and windows"], models)
    _served_by_the_package({**counts, "triton.kv_pool.stores": counts["triton.fused_ops.stores"]})
    assert counts["triton.kv_pool.stores"] == 0
    print(counts)


def test_drafts_are_verified(package: tuple[str, dict[str, str]], models: Path) -> None:
    draft = make_eagle_draft(models / "llama-eagle", make_checkpoint(models / "llama", "llama"))
    arguments = {**DRAFTS, "speculative_draft_model_path": str(draft), "enable_mixed_chunk": False}
    counts = _counts_of_the_right_tokens(*package, Served("llama", arguments), models)
    assert counts.get("host.attention.calls", 0) == 0
    print(counts)


def test_decode_beside_a_prefill_of_sglangs(tmp_path: Path, models: Path) -> None:
    """As where a table of the card says that decode is faster: SGLang's two backends in one, over one cache."""
    platform, environment = _found("cuda", tmp_path)
    backends = {"prefill_attention_backend": "torch_native", "decode_attention_backend": platform}
    served = Served("llama", {**backends, "enable_mixed_chunk": False})
    counts = _counts_of_the_right_tokens(platform, environment, served, models)
    assert counts["triton.attention.decodes"] > 0
    assert counts["host.attention.calls"] > 0
    assert counts.get("triton.attention.extends", 0) == 0


def _counts_of_the_right_tokens(
    platform: str, environment: dict[str, str], served: Served, models: Path
) -> Mapping[str, int]:
    folder = models / (f"{served.architecture}-stretched" if served.fields else served.architecture)
    checkpoint = stands_for = make_checkpoint(folder, served.architecture, **served.fields)
    if served.weights:
        checkpoint, stands_for = make_quantised(models, served.weights, served.architecture)
    prompts = [[prompt] for prompt in ALONE] + [TOGETHER[:1], TOGETHER]
    wanted = [served.expected(stands_for, batch, NEW_TOKENS) for batch in prompts]
    arguments = {**_arguments(checkpoint), **served.arguments}
    with EngineProcess(platform, arguments, environment=environment) as engine:
        for batch, expected in zip(prompts, wanted, strict=True):
            replies = engine.call("generate", input_ids=batch, max_new_tokens=NEW_TOKENS)
            got = [reply["output_ids"] for reply in replies]
            assert got == expected, f"prompts of {[len(prompt) for prompt in batch]} tokens"
        cached = [reply["cached_tokens"] for reply in replies]
        counts = engine.counters()
    # With EAGLE's drafts SGLang keeps prefixes by pairs of tokens: the last of a prefix has no pair.
    pairs = PAGE if "speculative_algorithm" in served.arguments else 0
    assert min(cached[:2]) >= SHARED - pairs, cached
    return counts


def _arguments(checkpoint: Path) -> dict[str, Any]:
    return {
        "model_path": str(checkpoint),
        "page_size": PAGE,
        "chunked_prefill_size": CHUNK,
        "enable_mixed_chunk": True,
        "disable_cuda_graph": True,
        "max_total_tokens": 1024,
    }


def _served_by_the_package(counts: Mapping[str, int]) -> None:
    ours = ("attention.decodes", "attention.extends", "kv_pool.stores", "paged_allocator.extends",
            "paged_allocator.decodes", "fused_ops.calls")  # fmt: skip
    assert {name: counts.get(f"triton.{name}", 0) for name in ours if not counts.get(f"triton.{name}")} == {}
    theirs = ("host.attention.calls", "host.kv_pool.stores", "host.paged_allocator.calls")
    assert {name: counts.get(name, 0) for name in theirs} == dict.fromkeys(theirs, 0)
