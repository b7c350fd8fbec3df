"""The attention kernels of the package `KERNELS_OF` in the interpreter, and every kind of defect in them, which the
checks must see.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sglang_platform.conformance.kernels.case import ComparedOutput
from sglang_platform.conformance.kernels.checks import decode as decode_check
from sglang_platform.conformance.kernels.checks import extend as extend_check
from sglang_platform.conformance.kernels.checks import index_logits as index_check
from sglang_platform.conformance.kernels.checks import sparse_decode as sparse_check
from sglang_platform.conformance.kernels.checks import top_slots as top_check
from sglang_platform.conformance.kernels.checks.attention_oracle import Rule
from sglang_platform.conformance.kernels.mutants import Mutant, load, mutated
from sglang_platform.conformance.kernels.tested import drawing_from
from sglang_platform.core.portable.triton.top_slots import top_slots

CPU = torch.device("cpu")
HERE = f"sglang_platform.{os.environ['KERNELS_OF']}.kernels"
WRAPPERS = "sglang_platform.core.portable.triton.wrappers"
RULE = "sglang_platform.core.portable.triton.attention_layer"
EXTEND = "sglang_platform.core.portable.triton.kernels.extend"
KEYS = "sglang_platform.core.portable.triton.kernels.key_blocks"
INDEX = "sglang_platform.core.portable.triton.kernels.dsa_index"
decode, hardware = (importlib.import_module(f"{HERE}.{name}") for name in ("decode", "hardware"))
DECLARED = {one.name: one for one in importlib.import_module(f"{HERE}.declared").KERNELS}
FAMILIES: dict[str, tuple[Any, Any, str]] = {
    "decode": (decode_check, decode, "paged_decode"),
    "extend": (extend_check, hardware, "paged_extend"),
}


@pytest.fixture(autouse=True)
def under_test() -> Iterator[None]:
    """Architectures and 8-bit formats as the decode kernel declares them; sparse checks have fewer formats."""
    with drawing_from(DECLARED["paged decode"]):
        yield


@pytest.mark.parametrize("family", FAMILIES)
def test_the_kernel_keeps_its_bound(family: str) -> None:
    """A share of the cases; `python -m sglang_platform.conformance.kernels` runs all."""
    check, module, entry = FAMILIES[family]
    seen = list(check.cases(getattr(module, entry), CPU, seed=1))
    assert len(seen) >= 40
    for case in seen[::3]:
        for outcome in case.run():
            assert outcome.good, f"{case.name}: {outcome}"


MERGE = "sglang_platform.core.portable.triton.merge"
DECODE_MUTANTS = (
    Mutant("the slot after", f"{HERE}.decode", "table_row + token, mask", "table_row + token + 1, mask"),
    Mutant("the page after", f"{HERE}.decode", "k_row = slot[:, None]", "k_row = (slot + 16)[:, None]"),
    Mutant("one token too many", f"{HERE}.decode", "live = token < end", "live = token <= end"),
    Mutant("one token too few", f"{HERE}.decode", "live = token < end", "live = token < end - 1"),
    Mutant("no key scale", f"{HERE}.decode", "scale *= tl.load(k_scale_ptr)", "scale *= 1.0"),
    Mutant("no value scale", f"{HERE}.decode", "acc *= tl.load(v_scale_ptr)", "acc *= 1.0"),
    Mutant(
        "scales swapped",
        RULE,
        "*one_element(q, self.k_scale, self.v_scale)",
        "*one_element(q, self.v_scale, self.k_scale)",
    ),
    Mutant(
        "interleaved head groups",
        f"{HERE}.decode",
        "head = kv_head * GROUP + in_group",
        "head = in_group * (tl.num_programs(1) // HEAD_BLOCKS) + kv_head",
    ),
    Mutant(
        "the next KV head",
        f"{HERE}.decode",
        "k_ptr + kv_head * k_stride_h",
        "k_ptr + (kv_head + 1) * k_stride_h",
    ),
    Mutant("window one short", f"{HERE}.decode", "length - 1 - window", "length - window"),
    Mutant("window one long", f"{HERE}.decode", "length - 1 - window", "length - 2 - window"),
    Mutant("no soft cap", RULE, '"CAPPED": self.logit_cap > 0', '"CAPPED": False'),
    Mutant("natural instead of binary logarithm", f"{HERE}.decode", "tl.log2(total)", "tl.log(total)"),
    Mutant("old sum kept as it was", f"{HERE}.decode", "acc * r[:, None], input", "acc, input"),
    Mutant("rest of the head left out", f"{WRAPPERS}.decode", "REST=rest", "REST=0"),
    Mutant(
        "values of dead tokens loaded",
        f"{HERE}.decode",
        "live[:, None] & live_v[None, :], FORMAT",
        "live_v[None, :], FORMAT",
    ),
    Mutant("a sink in every split", f"{HERE}.decode", "if SINKS and not SPLIT", "if SINKS"),
    Mutant(
        "two splits store to one place",
        f"{HERE}.decode",
        "number.to(tl.int64) *",
        "(number // 2).to(tl.int64) *",
    ),
    Mutant("a split of the next request", f"{HERE}.decode", "row_ptr + request)", "row_ptr + request // 2)"),
    Mutant("first split lost", MERGE, "there = part < parts", "there = (part > 0) & (part < parts)"),
    Mutant("last split lost", MERGE, "there = part < parts", "there = part < parts - 1"),
    Mutant(
        "splits of the first request", MERGE, "row = first.to(tl.int64)", "row = (first * 0).to(tl.int64)"
    ),
    Mutant("splits not weighed", MERGE, "w = tl.exp2(lse - m_finite)", "w = tl.where(there, 1.0, 0.0)"),
    Mutant("sink left out of the merge", MERGE, "SINKS=sinks is not None", "SINKS=False"),
)
if HERE.startswith("sglang_platform.cuda"):
    DECODE_MUTANTS += (
        Mutant(
            "even columns not rescaled", f"{HERE}.decode", "acc_even * r[:, None], input", "acc_even, input"
        ),
        Mutant(
            "columns of the other scale",
            f"{HERE}.decode",
            "tl.join(acc_even, acc_odd)",
            "tl.join(acc_odd, acc_even)",
        ),
    )
else:
    DECODE_MUTANTS += (
        Mutant(
            "scale without the low part", f"{HERE}.decode", "tl.dot(q_low, tl.trans(k), scores)", "scores"
        ),
        Mutant("scale without the power", f"{HERE}.decode", "scale * power[:, None]", "scale"),
    )
EXTEND_MUTANTS = (
    Mutant("the diagonal hidden", KEYS, "position[None, :] <= query", "position[None, :] < query"),
    Mutant(
        "one future token seen",
        KEYS,
        "position[None, :] <= query",
        "position[None, :] - 1 <= query",
    ),
    Mutant("mask without the prefix", EXTEND, "query = prefix + token", "query = token"),
    Mutant("prefix one short", EXTEND, "        end = prefix\n", "        end = prefix - 1\n"),
    Mutant("prefix one long", EXTEND, "        end = prefix\n", "        end = prefix + 1\n"),
    Mutant(
        "unmasked beyond the diagonal",
        EXTEND,
        "tl.minimum(earliest if CAUSAL else count, end)",
        "tl.minimum(last if CAUSAL else count, end)",
    ),
    Mutant(
        "cached blocks beyond the diagonal unmasked",
        EXTEND,
        "tl.minimum(prefix + earliest + 1, end_here)",
        "tl.minimum(prefix + last, end_here)",
    ),
    Mutant(
        "a cached block too many unmasked",
        EXTEND,
        "- low_here, 0) // BLOCK_N",
        "- low_here, 0) // BLOCK_N + 1",
    ),
    Mutant(
        "window of whole blocks by the first row",
        EXTEND,
        "prefix + last - 1 - window - low_here",
        "prefix + earliest - window - low_here",
    ),
    Mutant("window one short", KEYS, ">= query[:, None] - window", "> query[:, None] - window"),
    Mutant("window one long", KEYS, ">= query[:, None] - window", ">= query[:, None] - window - 1"),
    Mutant(
        "window of the block's last row",
        EXTEND,
        "prefix + earliest - window",
        "prefix + last - window",
    ),
    Mutant(
        "wrong head group",
        EXTEND,
        "head = kv_head * GROUP + in_group % GROUP",
        "head = in_group % GROUP * tl.num_programs(1) + kv_head",
    ),
    Mutant(
        "new keys of the first request",
        EXTEND,
        "k_new_ptr + begin * kn_stride_t",
        "k_new_ptr + 0 * kn_stride_t",
    ),
    Mutant("no key scale", EXTEND, "cached_scale *= tl.load(k_scale_ptr)", "cached_scale *= 1.0"),
    Mutant("no value scale", EXTEND, "acc *= tl.load(v_scale_ptr)", "acc *= 1.0"),
    Mutant(
        "key scale on new keys too",
        EXTEND,
        "cached_scale *= tl.load(k_scale_ptr)",
        "scale *= tl.load(k_scale_ptr)\n        cached_scale = scale",
    ),
    Mutant("the slot after", KEYS, "table_row + key, mask", "table_row + key + 1, mask", 2),
    Mutant("sink left out", RULE, '"SINKS": self.sinks is not None', '"SINKS": False'),
    Mutant("old sum not rescaled", KEYS, "acc * r[:, None], input", "acc, input"),
    Mutant(
        "rows of the next request stored",
        EXTEND,
        "live = live_m[:, None] &",
        "live = (row >= 0)[:, None] &",
    ),
    Mutant(
        "a token's neighbour in the group",
        EXTEND,
        "token = row // GROUP",
        "token = row % BLOCK_M // GROUP",
    ),
    Mutant("new keys in every split", EXTEND, "part == splits - 1", "part <= splits - 1"),
    Mutant("new keys in no split", EXTEND, "part == splits - 1", "part == splits"),
    Mutant("the same keys in every split", EXTEND, "low, part, splits", "low, part * 0, splits"),
    Mutant(
        "two splits store to one place",
        EXTEND,
        "(begin * splits + part)",
        "(begin * splits + part // 2)",
    ),
    Mutant("a sink in every split", EXTEND, "tl.where(splits == 1, sink", "tl.where(splits >= 1, sink"),
    Mutant("split with the natural logarithm", EXTEND, "tl.log2(total)", "tl.log(total)"),
)


def with_defect(entry: Any, mutant: Mutant, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    below = {RULE: "LayerRule", KEYS: "attend"}
    if mutant.module not in below:
        return mutated(entry, mutant, folder)
    wrapper = importlib.import_module(entry.func.__module__)
    name = below[mutant.module]
    monkeypatch.setattr(wrapper, name, getattr(load(mutant, folder), name))
    return entry


def first_fault(check: Any, entry: Any, mutant: Mutant) -> str | None:
    """Over the shapes that have what the mutant breaks, cheap ones first."""
    words = {"scale": "kv=float8", "cap": "cap=", "window": "window=", "sink": "sinks", "split": "splits"}
    wanted = [tag for word, tag in words.items() if word in mutant.name]
    shapes = [
        (number, shape)
        for number, shape in enumerate(check.shapes(2))
        if all(w in shape.name for w in wanted)
    ]
    for number, shape in sorted(shapes, key=lambda s: s[1].kv_heads * s[1].group * len(s[1].name.split(","))):
        try:
            bad = [outcome for outcome in check.run(entry, CPU, shape, f"2 {number}")[0] if not outcome.good]
        except Exception as error:  # noqa: BLE001 - a mutant may fail in any way
            return f"{shape.name}: {error!r}"
        if bad:
            return f"{shape.name}: {bad[0]}"
    return None


@pytest.mark.parametrize("mutant", DECODE_MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_a_defect_in_decode_is_seen(mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = with_defect(decode.paged_decode, mutant, tmp_path, monkeypatch)
    assert first_fault(decode_check, entry, mutant) is not None


@pytest.mark.parametrize("mutant", EXTEND_MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_a_defect_in_extend_is_seen(mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = with_defect(hardware.paged_extend, mutant, tmp_path, monkeypatch)
    assert first_fault(extend_check, entry, mutant) is not None


TOP = top_slots.__module__
SPARSE_MUTANTS = (
    Mutant("no key scale", INDEX, "1) * scale", "1)"),
    Mutant("negative products kept", INDEX, "tl.maximum(products, 0.0)", "products"),
    Mutant(
        "scales of the page after", INDEX, "(page + PAGE * D) // 4", "(page + page_stride + PAGE * D) // 4"
    ),
    Mutant("keys by position", INDEX, "page = slot // PAGE", "page = position // PAGE"),
    Mutant("a key too few of a run", INDEX, "known = position < longest", "known = position < longest - 1"),
    Mutant("one run per tile", INDEX, "stop = tl.min(tl.where(other, near, token + TILE), 0)", "stop = last"),
    Mutant("length of the run's first", INDEX, "tl.load(len_ptr + at)", "tl.load(len_ptr + token)"),
    Mutant("one too few", TOP, "equal_rank <= wanted", "equal_rank < wanted"),
    Mutant("equal ones all taken", TOP, "(equal & (equal_rank <= wanted))", "equal"),
    Mutant("negative numbers in the wrong order", TOP, "bits < 0, ~bits", "bits < 0, bits"),
    Mutant("positions instead of slots", TOP, "tl.store(out + rank, slot", "tl.store(out + rank, position"),
    Mutant("the last byte left out", TOP, "tl.static_range(4)", "tl.static_range(3)"),
    Mutant("rest of the head left out", f"{WRAPPERS}.decode", "REST=rest", "REST=0"),
    Mutant("the slot after", f"{HERE}.decode", "table_row + token, mask", "table_row + token + 1, mask"),
)
SPARSE = {INDEX: (index_check, hardware.index_logits), TOP: (top_check, top_slots)}


@pytest.mark.parametrize("module", SPARSE)
def test_sparse_attention_keeps_its_bound(module: str) -> None:
    """A share of the cases. Without it a kernel that always fails would fail with every defect too."""
    check, entry = SPARSE[module]
    with drawing_from(DECLARED["sparse decode"]):
        seen = list(check.cases(entry, CPU, seed=2))
    for case in seen[::2]:
        for outcome in case.run():
            assert outcome.good, f"{case.name}: {outcome}"


@pytest.mark.parametrize("mutant", SPARSE_MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_a_defect_in_sparse_attention_is_seen(mutant: Mutant, tmp_path: Path) -> None:
    check, entry = SPARSE.get(mutant.module, (sparse_check, decode.paged_decode))
    with drawing_from(DECLARED["sparse decode"]):
        cases = list(check.cases(mutated(entry, mutant, tmp_path), CPU, seed=2))
    for case in cases:
        try:
            if not all(outcome.good for outcome in case.run()):
                return
        except Exception:  # noqa: BLE001 - a mutant may fail in any way
            return
    pytest.fail(f"{mutant.name} passed every case")


def _other(rule: Rule, **changes: Any) -> Rule:
    return Rule(**{**vars(rule), **changes})


NUMERIC: dict[str, Callable[[Any, Rule], Rule | None]] = {
    "no key scale": lambda s, r: _other(r, k_scale=1.0) if s.kv.itemsize == 1 else None,
    "no value scale": lambda s, r: _other(r, v_scale=1.0) if s.kv.itemsize == 1 else None,
    "a scale of the wrong width": lambda s, r: (
        _other(r, scale=s.value_dim**-0.5) if s.dim != s.value_dim else None
    ),
    "no soft cap": lambda s, r: _other(r, logit_cap=0.0) if s.logit_cap else None,
    "window one short": lambda s, r: _other(r, window=s.window - 1) if s.window > 0 else None,
    "window one long": lambda s, r: _other(r, window=s.window + 1) if s.window >= 0 else None,
    "no sinks": lambda s, r: _other(r, sinks=None) if s.sinks else None,
    "sinks without their sign": lambda s, r: _other(r, sinks=-r.sinks) if r.sinks is not None else None,
    "not causal": lambda s, r: _other(r, causal=False) if getattr(s, "causal", False) else None,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrong_number_exceeds_the_bound_tenfold(family: str) -> None:
    """A correct kernel against oracles that are each wrong in one number: the bound is tight enough to tell."""
    check, module, entry = FAMILIES[family]
    worst: dict[str, float] = {}
    for number, shape in enumerate(check.shapes(seed=3)):
        if not sum(getattr(shape, "lengths", None) or getattr(shape, "new", ())):
            continue
        wanted = {name: change for name, change in NUMERIC.items() if worst.get(name, 0.0) <= 10}
        outcomes, against, rule = check.run(getattr(module, entry), CPU, shape, f"3 {number}")
        assert all(outcome.good for outcome in outcomes)
        for name, change in wanted.items():
            other = change(shape, rule)
            if other is not None:
                outcome: ComparedOutput = against(other)
                worst[name] = max(worst.get(name, 0.0), outcome.error)
    expected = set(NUMERIC) - ({"not causal"} if family == "decode" else set())
    assert set(worst) == expected
    assert all(error > 10 for error in worst.values()), worst
