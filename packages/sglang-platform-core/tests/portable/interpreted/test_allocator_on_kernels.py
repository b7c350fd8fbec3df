"""The Triton allocator against core's, through one random history: the same slots at every step."""

from __future__ import annotations

import random

import pytest
import torch

from sglang_platform.core.memory.paged import PagedTokenToKVPoolAllocator
from sglang_platform.core.portable.triton.allocator import TritonPagedAllocator


class OnDevice(PagedTokenToKVPoolAllocator):
    use_numpy_on_cpu = False


@pytest.mark.parametrize("page_size", [2, 16])
@pytest.mark.parametrize("need_sort", [False, True])
def test_the_same_history(page_size: int, need_sort: bool) -> None:
    chance = random.Random(page_size)
    keywords = {"size": 60 * page_size, "page_size": page_size, "dtype": torch.int64, "device": "cpu"}
    both = [cls(kvcache=None, need_sort=need_sort, **keywords) for cls in (TritonPagedAllocator, OnDevice)]
    requests: list[list[int]] = []
    refused = 0
    for _ in range(60):
        action = chance.choice(("extend", "decode", "free"))
        if action == "extend":
            new = [chance.randint(0, 3 * page_size) for _ in range(chance.randint(1, 4))]
            grown = [[] for _ in new] if not requests or chance.random() < 0.7 else requests[: len(new)]
            new = new[: len(grown)]
            prefix = torch.tensor([len(r) for r in grown])
            seq = prefix + torch.tensor(new)
            last = torch.tensor([r[-1] if r else -1 for r in grown])
            got, want = (one.alloc_extend(prefix, prefix, seq, seq, last, sum(new)) for one in both)
            if want is None:
                assert got is None
                refused += 1
                continue
            assert torch.equal(got, want)
            slots = want.tolist()
            for request, count in zip(grown, new, strict=True):
                request += slots[:count]
                del slots[:count]
            requests += [r for r in grown if r not in requests and r]
        elif action == "decode" and requests:
            seq = torch.tensor([len(r) + 1 for r in requests])
            last = torch.tensor([r[-1] for r in requests])
            got, want = (one.alloc_decode(seq, seq, last) for one in both)
            if want is None:
                assert got is None
                refused += 1
                continue
            assert torch.equal(got, want)
            for request, slot in zip(requests, want.tolist(), strict=True):
                request.append(slot)
        elif action == "free" and requests:
            gone = requests.pop(chance.randrange(len(requests)))
            for one in both:
                one.free(torch.tensor(gone))
        assert both[0].available_size() == both[1].available_size()
        assert torch.equal(both[0].free_pages, both[1].free_pages)
    assert requests or refused
