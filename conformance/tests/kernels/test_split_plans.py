"""When decode plans the parts of a batch, and when it splits none, with launches recorded instead of made."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import pytest
import torch

from sglang_platform.core.portable.triton.attention_step import TritonAttentionStep
from sglang_platform.core.portable.triton.split_work import SplitPlan
from sglang_platform.core.portable.triton.wrappers import decode


class Decode:
    """A package's wrapper with its launches counted by name."""

    def __init__(self, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.launched: list[str] = []
        self.hardware = importlib.import_module(f"sglang_platform.{package}.kernels.hardware").HARDWARE
        monkeypatch.setattr(decode, "plan_parts", self._plan)

    def _plan(self, seq_lens: torch.Tensor, *, wanted: int, **_: Any) -> SplitPlan:
        self.launched.append("plan")
        return SplitPlan(torch.empty(wanted + len(seq_lens) - 1), torch.empty(len(seq_lens) + 1))

    def __getitem__(self, grid: tuple[int, int]) -> Any:
        return lambda *_, **constants: self.launched.append("split" if constants["SPLIT"] else "whole")

    def run(self, lengths: torch.Tensor, **options: Any) -> list[str]:
        """The launches of one layer."""
        self.launched.clear()
        cache = torch.empty(64, 8, 64, dtype=torch.bfloat16)
        q = torch.empty(len(lengths), 32, 64, dtype=torch.bfloat16)
        run = partial(
            decode.paged_decode,
            hardware=self.hardware,
            decode_kernel=self,
            merge_parts=lambda *_, **__: self.launched.append("merge"),
        )
        table, rows = torch.zeros(len(lengths), 8192, dtype=torch.int32), torch.arange(len(lengths))
        run(q, cache, cache, table, rows, lengths, torch.empty_like(q), scale=1.0, **options)
        return list(self.launched)


def step_of(lengths: torch.Tensor | list[int] | None) -> dict[str, Any]:
    step = TritonAttentionStep(lengths=lengths)
    return {"max_len": step.longest, "alike": step.alike}


@pytest.mark.parametrize("package", ["cuda", "rocm"])
def test_which_batches_are_split(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request, few ones, and a full batch in which one is long or whose lengths a graph does not know are split; a
    full batch of like lengths is not, nor short ones."""
    wrapper = Decode(package, monkeypatch)
    parts = ["plan", "split", "merge"]
    one, few, full = torch.full((1,), 8000), torch.full((4,), 4000), torch.full((512,), 4000)
    uneven = torch.full((512,), 300)
    uneven[7] = 8000
    near = 3000 + 4 * torch.arange(512)
    assert wrapper.run(one, **step_of(one)) == parts
    assert wrapper.run(few, **step_of(few)) == parts
    assert wrapper.run(uneven, **step_of(uneven)) == parts
    assert wrapper.run(full, **step_of(None)) == parts
    assert wrapper.run(full, **step_of(full)) == ["whole"]
    assert wrapper.run(near, **step_of(near)) == ["whole"]
    assert wrapper.run(full, **step_of(full.tolist())) == ["whole"]
    assert wrapper.run(few // 40, **step_of(few // 40)) == ["whole"]
    assert wrapper.run(few, splits=1) == ["whole"]


def test_one_plan_serves_the_layers_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second pass of the same step, as a capture after its warm-up, plans anew; so does a layer with a window."""
    wrapper, lengths = Decode("cuda", monkeypatch), torch.full((4,), 4000)
    step = TritonAttentionStep()
    plans = [
        wrapper.run(lengths, plans=step.plans_of(layer), window=window).count("plan")
        for layer, window in [(0, -1), (1, 1023), (2, -1), (3, 1023), (0, -1), (1, -1), (1, -1)]
    ]
    assert plans == [1, 1, 0, 0, 1, 0, 1]
    assert wrapper.run(lengths[:3], plans=step.plans_of(2)).count("plan") == 1


def test_lengths_that_are_not_known_are_not_alike() -> None:
    assert not TritonAttentionStep().alike
    assert not TritonAttentionStep(lengths=[]).alike
    assert not TritonAttentionStep(lengths=[1, 1, 1, 10]).alike
    assert TritonAttentionStep(lengths=[5, 10, 7]).alike
