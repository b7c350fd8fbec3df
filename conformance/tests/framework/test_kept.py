"""What calls leave behind is told, whatever was there before them."""

from __future__ import annotations

import gc

import pytest
import torch
from in_process import FixedSubject

from sglang_platform.conformance.check import CheckFailed
from sglang_platform.conformance.fixtures.kept import expect_nothing_kept
from sglang_platform.conformance.reference.platform import ReferencePlatform

OLD = torch.zeros(4000)


def test_calls_that_leave_nothing_are_right_also_with_rings_of_objects_and_views_of_what_was_there() -> None:
    views: list[torch.Tensor] = []

    def call(number: int) -> None:
        ring: list[object] = [torch.zeros(100)]
        ring.append(ring)
        views[:] = [OLD[number:]]

    expect_nothing_kept(FixedSubject(ReferencePlatform()), call, "calls")
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("kept", ["bytes in tensors", "objects of Python"])
def test_what_a_list_that_was_there_keeps_is_told(kept: str) -> None:
    there: list[object] = []

    def call(number: int) -> None:
        there.append(torch.zeros(100) if kept == "bytes in tensors" else [number])

    with pytest.raises(CheckFailed, match=f"calls leave more {kept} each time"):
        expect_nothing_kept(FixedSubject(ReferencePlatform()), call, "calls", kinds=[kept])
    assert gc.get_freeze_count() == 0
