"""Memory in tensors is counted beside tensors that have none, and goes back to the system."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from in_process import FixedSubject
from torch._subclasses.fake_tensor import FakeTensorMode

from sglang_platform.conformance.fixtures.tensor_memory import bytes_in_tensors, give_back_freed_memory
from sglang_platform.conformance.reference.platform import ReferencePlatform


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


def test_what_is_freed_between_blocks_that_stay_is_given_back() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    staying = []
    passing = []
    for _ in range(4000):
        passing.append(torch.ones(25_000))
        staying.append(torch.ones(10))
    del passing
    before = resident()
    give_back_freed_memory()
    assert before - resident() > 300e6
    del staying
