"""Decode over whole pages on NVIDIA: right, and taken where the copy unit can read the cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.conformance.kernels.case import ComparedOutput
from sglang_platform.conformance.kernels.checks import decode as check
from sglang_platform.conformance.kernels.checks.decode import DecodeProblem
from sglang_platform.conformance.kernels.mutants import Mutant, load
from sglang_platform.conformance.kernels.tested import drawing_from
from sglang_platform.core import MHATokenToKVPool, ReqToTokenPool
from sglang_platform.core.attention.batch import AttentionLayer, ForwardBatch, ForwardMode
from sglang_platform.core.attention.speculative import DraftPlace, TokenTable
from sglang_platform.core.portable.triton.wrappers.stored_kv import StoredKV
from sglang_platform.cuda.attention.backend import CudaAttentionBackend
from sglang_platform.cuda.kernels import decode, whole_pages
from sglang_platform.cuda.kernels.declared import KERNELS
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

CPU, BF16, FP16, FP8 = torch.device("cpu"), torch.bfloat16, torch.float16, torch.float8_e4m3fn
PAGED = {name: record for name, record in ARCHITECTURES.items() if record.pages is not None}
DECLARED = next(one for one in KERNELS if one.name == "paged decode")


def problem(
    lengths: tuple[int, ...], kv_heads: int, group: int, dim: int, value_dim: int, **more: Any
) -> DecodeProblem:
    words = {"page": 64, "dtype": BF16, "kv": BF16, "splits": 1, **more}
    return DecodeProblem(lengths, kv_heads, group, dim, value_dim, **words)


# No token, less than a block, whole blocks, one more and one less; the shapes of served models with fewer heads.
SERVED = (
    problem((0, 1, 63, 64, 65, 200), 2, 4, 128, 128),
    problem((191, 128), 2, 4, 128, 128, kv=FP8, splits=2),
    problem((130, 5), 1, 8, 128, 128, dtype=FP16, kv=FP16, pad=8),
    problem((150, 64), 1, 4, 64, 64, kv=FP8, pad=16, spread=3.0),
    problem((150,), 1, 4, 64, 64, kv=torch.float8_e5m2, dtype=FP16),
    problem((129, 70), 3, 1, 64, 64, sinks=True, splits=3),
    problem((129, 70), 2, 2, 64, 64, sinks=True, logit_cap=30.0),
    problem((140,), 1, 71, 64, 64, splits=2),
    problem((130,), 2, 2, 192, 128, page=128),
    problem((80, 64), 1, 2, 256, 256, page=128),
    problem((150, 3), 1, 16, 576, 512, latent=True, splits=2),
    problem((130,), 1, 40, 576, 512, latent=True, kv=FP8),
)


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """For each call of decode, whether it read whole pages."""
    seen: list[bool] = []

    def chosen(*args: Any, **words: Any) -> Any:
        found = whole_pages.whole_pages(*args, **words)
        seen.append(found is not None)
        return found

    with monkeypatch.context() as patch:
        patch.setitem(decode.paged_decode.keywords, "whole_pages", chosen)
        yield seen


def outcomes(target: str, one: DecodeProblem) -> list[ComparedOutput]:
    with drawing_from(replace(DECLARED, targets=(ARCHITECTURES[target],))):
        return check.run(decode.paged_decode, CPU, one, "pages")[0]


@pytest.mark.parametrize("one", SERVED, ids=lambda one: one.name)
@pytest.mark.parametrize("target", PAGED)
def test_it_keeps_the_bound_of_decode(
    target: str, one: DecodeProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows behind the last token of a page hold NaN and the largest numbers, and so do pages of nobody."""
    with watched(monkeypatch) as seen:
        found = outcomes(target, one)
    assert seen == [True]
    for outcome in found:
        assert outcome.good, outcome


@pytest.mark.parametrize(
    "one",
    [
        problem((70, 3), 2, 2, 64, 64, page=16),
        problem((70, 3), 2, 2, 64, 64, pad=1),
        problem((70, 3), 2, 2, 80, 80),
        problem((70, 3), 2, 2, 64, 64, dtype=torch.float32, kv=torch.float32),
    ],
    ids=["short pages", "rows that are not aligned", "columns of the next head", "float32"],
)
def test_other_caches_are_read_by_single_slots(one: DecodeProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch) as seen:
        found = outcomes("sm_90", one)
    assert seen == [False]
    assert all(outcome.good for outcome in found)


def test_windows_are_read_by_single_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch) as seen:
        found = outcomes("sm_90", problem((150, 3), 1, 2, 64, 64, window=70))
    assert seen == []
    assert all(outcome.good for outcome in found)


def test_a_cache_at_an_address_that_is_not_aligned_is_not_copied() -> None:
    room = torch.empty(128 * 64 + 1, dtype=BF16)
    for start, admitted in ((0, True), (1, False)):
        cache = room[start : start + 128 * 64].view(128, 1, 64)
        found = whole_pages.whole_pages(
            ARCHITECTURES["sm_90"], StoredKV(cache, cache, "", False), page_size=64, dtype=BF16, dim=64, values=64,
            latent=False,
        )  # fmt: skip
        assert (found is not None) == admitted


def test_devices_without_a_copy_unit_read_single_slots() -> None:
    assert {"sm_90", "sm_100", "sm_103"} <= PAGED.keys()
    assert not {"sm_80", "sm_86", "sm_89"} & PAGED.keys()


HERE = whole_pages.__name__
MUTANTS = (
    Mutant("the block after", HERE, "slot = ahead", "slot = ahead + BLOCK_N"),
    Mutant("the first block in every turn", HERE, "table_row + later", "table_row + start"),
    Mutant("a block too many", HERE, "(end - start) // BLOCK_N", "tl.cdiv(end - start, BLOCK_N)"),
    Mutant("columns of the first head", HERE, "load([slot, k_column])", "load([slot, k_column * 0])"),
    Mutant("values of the first head", HERE, "load([slot, v_column])", "load([slot, v_column * 0])"),
    Mutant("rest of the head left out", HERE, "tl.dot(q_rest, ", "tl.dot(q_rest * 0, "),
    Mutant("old sum kept as it was", HERE, "acc * r[:, None]", "acc"),
    Mutant("odd columns not rescaled", HERE, "acc_odd * r[:, None]", "acc_odd"),
    Mutant("odd columns left out", HERE, "tl.dot(q_odd, ", "tl.dot(q_odd * 0, "),
)  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_defect_is_seen(mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "attend_whole_blocks", load(mutant, tmp_path).attend_whole_blocks)
    for one in (
        problem((64, 200), 2, 2, 64, 64, spread=3.0),
        problem((64, 200), 2, 2, 192, 128, spread=3.0),
        problem((64, 200), 2, 2, 64, 64, kv=FP8, spread=3.0),
    ):
        try:
            if not all(outcome.good for outcome in outcomes("sm_90", one)):
                return
        except Exception:  # noqa: BLE001 - a mutant may fail in any way
            return
    pytest.fail(f"{mutant.name} passed every case")


def test_the_backend_reads_pages_from_the_request_table_and_slots_from_one_of_drafts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A line of drafts has slots of several places, in whatever pages the pool has."""
    pool = MHATokenToKVPool(256, 64, BF16, 1, 64, 1, "cpu", False)
    table = ReqToTokenPool(2, 128, "cpu", False)
    table.req_to_token[1, :128] = torch.arange(64, 192, dtype=torch.int32)
    backend = CudaAttentionBackend(
        SimpleNamespace(token_to_kv_pool=pool, req_to_token_pool=table, device="cpu")  # type: ignore[arg-type]
    )
    layer = AttentionLayer(0, 2, 1, 1, 64, 64, 0.125)
    lengths = torch.tensor([100])
    batch = ForwardBatch(
        ForwardMode.DECODE, 1, torch.tensor([1]), lengths, torch.tensor([163]), seq_lens_cpu=lengths
    )  # fmt: skip
    for buffer in (*pool.k_buffer, *pool.v_buffer):
        buffer.normal_(generator=torch.Generator().manual_seed(1))
    q, k, v = (torch.randn(1, heads, 64).to(BF16).flatten(1) for heads in (2, 1, 1))
    backend.init_forward_metadata(batch)
    answers = []
    with watched(monkeypatch) as seen:
        for lines in (None, TokenTable(table.req_to_token.clone())):
            with backend._reading(lines):
                answers.append(backend.forward(q, k, v, layer, batch))
        backend.drafts = DraftPlace(step=0, topk=1, steps=1)
        answers.append(backend.forward_decode(q, k, v, layer, batch))
    assert seen == [True, False, False]
    assert all(torch.allclose(answers[0], other, atol=1e-2) for other in answers[1:])
