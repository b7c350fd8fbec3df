"""Level 3: the indexer's keys of a DSA pool, page by page with their scales."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.far_rows import expect_room
from sglang_platform.conformance.fixtures.poisoned_pool import INDEXER, PoisonedPool, page_sizes
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.stored_bytes import raw_bytes
from sglang_platform.conformance.requirement import kv_kind
from sglang_platform.conformance.subject import Subject

_SIGNED = 2**15
"""Numbers of 16 bits with a sign end there."""

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
    founds="dsa pool",
    fix="a page is one row of bytes: the fp8 keys of all its tokens, then the float32 scales of all; token t of page p"
    " is slot p * page_size + t",
)
def dsa_index_keys_read_back(subject: Subject, case: Keys) -> None:
    """The indexer's keys and scales land in their place of the page, and are read back request by request, whose pages
    go up or down, and of several requests at once, by a table of pages that is a slice of a wider one."""
    size = 4 * case.page_size + case.tokens
    pool = PoisonedPool(
        subject, "dsa", size=size, page_size=case.page_size, index_head_dim=case.index_head_dim, start_layer=1
    )
    page_ids = list(range(1, 1 + -(-case.tokens // case.page_size)))
    for layer_id, order in zip(pool.layers, (page_ids, page_ids[::-1]), strict=False):
        _keys_of_a_request(subject, case, pool, layer_id, order)
    if hasattr(pool.pool, "get_index_k_scale_buffer"):
        _keys_of_requests(subject, case, pool)


@dataclass(frozen=True)
class FarPages:
    page_size: int
    pages: tuple[int, ...]


def far_pages(subject: Subject, rng: random.Random) -> Iterator[FarPages]:
    yield FarPages(
        min(page_sizes(subject, "dsa")), (1, 2, _SIGNED + 1, _SIGNED, 2 * _SIGNED + 2, 2 * _SIGNED)
    )


@check(
    level=Level.MEMORY,
    requires=[kv_kind("dsa")],
    cases=far_pages,
    fix="number pages in 32 bits at least: a server has a hundred thousand",
)
def dsa_index_keys_of_far_pages(subject: Subject, case: FarPages) -> None:
    """Of a pool of more than 2**16 pages the indexer's keys of the first and of the last are read back."""
    size = max(case.pages) * case.page_size
    expect_room(subject, size * 256)
    pool = subject.pool("dsa", size=size, page_size=case.page_size, layer_num=1, index_head_dim=128)
    slots = torch.tensor(case.pages)[:, None] * case.page_size + torch.arange(case.page_size)
    tokens = slots.numel()
    key_bytes, scales = _random_keys(subject.torch_rng(), tokens, 128)
    where = slots.flatten().to(subject.device)
    pool.set_index_k_scale_buffer(
        0, where, key_bytes.view(torch.float8_e4m3fn).to(subject.device), scales.to(subject.device)
    )
    pages = torch.tensor(case.pages, device=subject.device, dtype=torch.int32)
    for name, wanted in (("get_index_k_continuous", key_bytes), ("get_index_k_scale_continuous", scales)):
        got = raw_bytes(getattr(pool, name)(0, tokens, pages)).reshape(tokens, -1)
        wrong = np.flatnonzero((got != raw_bytes(wanted).reshape(tokens, -1)).any(axis=1))
        expect(
            not len(wrong),
            f"{name}() does not give back what was stored in page {case.pages[wrong[0] // case.page_size]}"
            if len(wrong)
            else "",
        )


def _random_keys(generator: torch.Generator, tokens: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The bytes of fp8 keys, and their scales."""
    key_bytes = torch.randint(0, 120, (tokens, dim), generator=generator, dtype=torch.uint8)
    return key_bytes, torch.rand(tokens, dim // 128, generator=generator) + 0.5


def _keys_of_a_request(
    subject: Subject, case: Keys, pool: PoisonedPool, layer_id: int, page_ids: list[int]
) -> None:
    generator = subject.torch_rng()
    slots = [page * case.page_size + at for page in page_ids for at in range(case.page_size)][: case.tokens]
    key_bytes, scales = _random_keys(generator, case.tokens, case.index_head_dim)
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


def _keys_of_requests(subject: Subject, case: Keys, pool: PoisonedPool) -> None:
    """Of one request of the case's tokens, one without tokens, and one whose only page is the first's last."""
    page_ids = list(range(1, 1 + -(-case.tokens // case.page_size)))
    rest = case.tokens - (len(page_ids) - 1) * case.page_size
    layer_id = pool.layers[0]
    table = torch.zeros(3, len(page_ids) + 3, dtype=torch.int32)
    table[0, : len(page_ids)] = torch.tensor(page_ids)
    table[2, 0] = page_ids[-1]
    given = table.to(subject.device)[:, : len(page_ids)]
    lengths = torch.tensor([case.tokens, 0, rest], dtype=torch.int32, device=subject.device)
    got = pool.pool.get_index_k_scale_buffer(layer_id, lengths, given, case.tokens + rest, case.tokens)
    for one, name in zip(got, ("get_index_k_continuous", "get_index_k_scale_continuous"), strict=True):
        read = getattr(pool.pool, name)
        parts = (case.tokens, page_ids), (rest, page_ids[-1:])
        wanted = [
            raw_bytes(read(layer_id, n, torch.tensor(pages, device=subject.device, dtype=torch.int32)))
            for n, pages in parts
        ]
        expect(
            np.array_equal(raw_bytes(one).reshape(-1), np.concatenate([part.reshape(-1) for part in wanted])),
            f"of requests of {case.tokens}, 0 and {rest} tokens get_index_k_scale_buffer() does not give what {name}()"
            " gives of each, one behind the other",
            fix="walk each request's row of page_indices by its stride, and cut at its own length",
        )
