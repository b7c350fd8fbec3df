"""Level 3: the indexer's keys of a DSA pool, page by page with their scales."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.poisoned_pool import INDEXER, PoisonedPool, page_sizes
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.stored_bytes import raw_bytes
from sglang_platform.conformance.requirement import kv_kind
from sglang_platform.conformance.subject import Subject

_PREFILL = 1300
"""Tokens of one store, more than a block of 1,024 threads has."""


@dataclass(frozen=True)
class Keys:
    page_size: int
    index_head_dim: int
    tokens: int


def keys(subject: Subject, rng: random.Random) -> Iterator[Keys]:
    for page_size in page_sizes(subject, "dsa"):
        for tokens in (1, 2 * page_size + 1):
            yield Keys(page_size, 128, tokens)
    yield Keys(page_size, 128, _PREFILL)


@check(
    level=Level.MEMORY,
    requires=[kv_kind("dsa")],
    cases=keys,
    fix="a page is one row of bytes: the fp8 keys of all its tokens, then the float32 scales of all; token t of page p"
    " is slot p * page_size + t",
)
def dsa_index_keys_read_back(subject: Subject, case: Keys) -> None:
    """The indexer's keys and scales land in their place of the page, and are read back request by request, whose pages
    go up or down."""
    size = 4 * case.page_size + case.tokens
    pool = PoisonedPool(
        subject, "dsa", size=size, page_size=case.page_size, index_head_dim=case.index_head_dim, start_layer=1
    )
    page_ids = list(range(1, 1 + -(-case.tokens // case.page_size)))
    for layer_id, order in zip(pool.layers, (page_ids, page_ids[::-1]), strict=False):
        _keys_of_a_request(subject, case, pool, layer_id, order)


def _keys_of_a_request(
    subject: Subject, case: Keys, pool: PoisonedPool, layer_id: int, page_ids: list[int]
) -> None:
    generator = subject.torch_rng()
    slots = [page * case.page_size + at for page in page_ids for at in range(case.page_size)][: case.tokens]
    key_bytes = torch.randint(
        0, 120, (case.tokens, case.index_head_dim), generator=generator, dtype=torch.uint8
    )
    scales = torch.rand(case.tokens, case.index_head_dim // 128, generator=generator) + 0.5
    pool.pool.set_index_k_scale_buffer(
        layer_id,
        pool.locations(slots),
        key_bytes.view(torch.float8_e4m3fn).to(subject.device),
        scales.to(subject.device),
    )
    rows = np.concatenate((raw_bytes(key_bytes), raw_bytes(scales)), axis=1)
    pool.image.store(f"{INDEXER} of layer {layer_id}", slots, rows)
    pool.verify(f"storing the indexer's keys of {case.tokens} tokens")

    pages = torch.tensor(page_ids, device=subject.device, dtype=torch.int32)
    for name, wanted in (("get_index_k_continuous", key_bytes), ("get_index_k_scale_continuous", scales)):
        got = getattr(pool.pool, name)(layer_id, case.tokens, pages)
        expect(
            np.array_equal(raw_bytes(got).reshape(case.tokens, -1), raw_bytes(wanted)),
            f"{name}() does not give back what was stored",
            fix="walk the request's pages in the order given, and cut at its length",
        )
