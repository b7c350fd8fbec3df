"""The profile of a step: a part's own time, its share, and the part named as the next to replace."""

from __future__ import annotations

import sys
import time
import types
from typing import Any

import pytest

from sglang_platform.conformance.host import step_profile
from sglang_platform.conformance.host.served_parts import ServedPart
from sglang_platform.core.counters import counter

ROWS = [
    ServedPart("attention", "SGLang", "", 1),
    ServedPart("KV pool", "the platform", "", 1),
    ServedPart("paged allocator", "core", "", 1),
    ServedPart("sampling", "SGLang", "", None),
]
REST = "products and the rest"


def profiled(**spent: int) -> list[step_profile.Share]:
    counts = {f"witness.nanoseconds.{part.replace('_', ' ')}": time for part, time in spent.items()}
    return step_profile.shares(ROWS, {}, {**counts, "witness.attention.forward_decode": 10**12})


@pytest.mark.parametrize(
    ("spent", "says"),
    [
        ({"attention": 61, "KV_pool": 39}, "attention is 61% of a step and SGLang's: replace it next"),
        ({"attention": 30, "KV_pool": 70}, "attention is 30% of a step and SGLang's: replace it next"),
        ({"RMSNorm": 40, "attention": 30, "sampling": 30}, "RMSNorm is 40% of a step and SGLang's"),
        ({"RMSNorm": 20, "SiluAndMul": 30, "KV_pool": 50}, "SiluAndMul is 30% of a step and SGLang's"),
        ({"sampling": 90, "attention": 10}, "attention is 10% of a step"),
        ({"paged_allocator": 50, "KV_pool": 50}, "paged allocator is 50% of a step and core's"),
        ({"attention": 4, "KV_pool": 96}, "no part that the platform leaves to others is 5% of a step"),
        ({"KV_pool": 1}, "no part that the platform leaves to others is 5% of a step"),
        ({"products_and_the_rest": 90, "attention": 10}, "attention is 10% of a step"),
        ({}, "no part that the platform leaves to others is 5% of a step"),
    ],
)
def test_the_largest_part_of_others_comes_next(spent: dict[str, int], says: str) -> None:
    assert step_profile.next_step(profiled(**spent)).startswith(says)


def test_shares_are_of_the_time_since_the_first_reading() -> None:
    name = "witness.nanoseconds."
    before = {f"{name}attention": 100, f"{name}{REST}": 1000}
    after = {f"{name}attention": 130, f"{name}{REST}": 1010, f"{name}RMSNorm": 60}
    found = step_profile.shares(ROWS, before, after)
    assert found == [("RMSNorm", "SGLang", 0.6), ("attention", "SGLang", 0.3), (REST, "torch", 0.1)]


def test_a_part_has_its_own_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    platform = types.SimpleNamespace(synchronize=lambda: waited.append(""))
    module: Any = types.ModuleType("sglang.srt.platforms")
    module.current_platform = platform
    monkeypatch.setitem(sys.modules, "sglang.srt.platforms", module)
    inner = step_profile._timed(lambda: time.sleep(0.05), "an inner part")
    outer = step_profile._timed(lambda: (time.sleep(0.02), inner()), "an outer part")
    fails = step_profile._timed(lambda: 1 / 0, "a part that fails")
    outer()
    with pytest.raises(ZeroDivisionError):
        fails()
    spent = {one: counter(f"witness.nanoseconds.{one}").value for one in ("an inner part", "an outer part")}
    assert spent["an inner part"] >= 50e6
    assert 20e6 <= spent["an outer part"] < spent["an inner part"]
    assert step_profile._inner == []
    assert len(waited) == 6
