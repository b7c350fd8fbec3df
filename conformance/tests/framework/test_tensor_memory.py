"""Memory in tensors is counted beside tensors that have none, and what is freed can be had again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from in_process import FixedSubject
from torch._subclasses.fake_tensor import FakeTensorMode

from sglang_platform.conformance.check import NotRun
from sglang_platform.conformance.fixtures.far_rows import expect_room
from sglang_platform.conformance.fixtures.tensor_memory import bytes_in_tensors
from sglang_platform.conformance.reference.platform import ReferencePlatform

# Prints how many bytes of 400 MB stay with the process after they are freed, and after they are given back.
BETWEEN_BLOCKS_THAT_STAY = """
import torch

from sglang_platform.conformance.fixtures.tensor_memory import give_back_freed_memory, resident

torch.ones(25_000)
before = resident()
passing, staying = [], []
for _ in range(4000):
    passing.append(torch.ones(25_000))
    staying.append(torch.ones(10))
del passing
freed = resident()
give_back_freed_memory()
print(freed - before, resident() - before)
"""


def test_tensors_without_memory_count_nothing() -> None:
    """A compiler leaves fake ones behind, whose memory nobody may ask for."""
    subject = FixedSubject(ReferencePlatform())
    before = bytes_in_tensors(subject)
    with FakeTensorMode():
        fake = torch.empty(1000)
    meta = torch.empty(1000, device="meta")
    in_a_transform = []
    torch.func.vmap(lambda one: in_a_transform.append(one) or one)(torch.zeros(3, 4))
    assert bytes_in_tensors(subject) - before < 1000
    plain = torch.zeros(1000)
    assert 4000 <= bytes_in_tensors(subject) - before < 5000
    del fake, meta, plain


def test_what_is_freed_between_blocks_that_stay_is_given_back(tmp_path: Path) -> None:
    """In a process of its own: where another has freed before, small blocks lie there and not between the large."""
    script = tmp_path / "script.py"
    script.write_text(BETWEEN_BLOCKS_THAT_STAY)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    kept, left = map(int, done.stdout.split())
    assert kept > 300e6
    assert left < 100e6


def test_there_is_room_in_what_an_allocator_keeps() -> None:
    class Keeps(ReferencePlatform):
        _kept = 900

        def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
            return 1000 - self._kept, 1000

        def empty_cache(self) -> None:
            self._kept = 500

    expect_room(FixedSubject(Keeps()), 400)
    with pytest.raises(NotRun, match="are free"):
        expect_room(FixedSubject(Keeps()), 401)
