"""How many machine codes the attention of a package needs for one model, whatever the steps are: prints them by kernel.

A variant that only some steps need is compiled when the first of these comes, while a request waits.
Arguments: the package, the architecture, and the tokens of a page.
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict

import torch

from sglang_platform.conformance.kernels.compile.fake_driver import pretend

PACKAGE, TARGET, PAGE = sys.argv[1:]
KERNELS = f"sglang_platform.{PACKAGE}.kernels"
Q_HEADS, KV_HEADS, DIM, SLOTS, WIDTH = 16, 4, 64, 4096, 32768


def kept(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, dtype=torch.bfloat16)


CACHE = kept(SLOTS, KV_HEADS, DIM), kept(SLOTS, KV_HEADS, DIM)
TABLE = torch.empty(64, WIDTH, dtype=torch.int32)


def extend(new: list[int], prefix: list[int]) -> None:
    """A step of prompts: new tokens of each request behind a cached prefix."""
    tokens, requests = sum(new), len(new)
    starts = torch.tensor([0, *torch.tensor(new).cumsum(0).tolist()], dtype=torch.int32)
    importlib.import_module(f"{KERNELS}.hardware").paged_extend(
        kept(tokens, Q_HEADS, DIM), kept(tokens, KV_HEADS, DIM), kept(tokens, KV_HEADS, DIM), *CACHE, TABLE,
        torch.arange(requests), starts, torch.tensor(prefix, dtype=torch.int32), kept(tokens, Q_HEADS, DIM),
        max_new=max(new), scale=0.125,
    )  # fmt: skip


def decode(batch: int, longest: int | None) -> None:
    """A step of one token per request."""
    importlib.import_module(f"{KERNELS}.decode").paged_decode(
        kept(batch, Q_HEADS, DIM), *CACHE, TABLE, torch.arange(batch), torch.full((batch,), longest or 1),
        kept(batch, Q_HEADS, DIM), max_len=longest, page_size=int(PAGE), scale=0.125,
    )  # fmt: skip


with pretend(importlib.import_module(f"{KERNELS}.tuning").ARCHITECTURES[TARGET]) as launched:
    extend([1], [0])
    extend([17, 640], [0, 0])
    extend([5], [1000])
    extend([16, 16], [64, 0])
    for batch in (1, 2, 3, 16, 33, 64):
        for longest in (None, 1, 255, 512, 1000, 4096, 32768):
            decode(batch, longest)
codes: dict[str, set[str]] = defaultdict(set)
for one in launched:
    codes[one.name].add(one.kernel.hash)
print(*(f"{name}={len(found)}" for name, found in sorted(codes.items())))
