"""Memory in tensors is counted beside tensors that have none."""

from __future__ import annotations

import torch
from in_process import FixedSubject
from torch._subclasses.fake_tensor import FakeTensorMode

from sglang_platform.conformance.fixtures.tensor_memory import bytes_in_tensors
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
