"""Level 3: the packed fp8 rows of a DSA pool, judged by what is read back, whatever the order of their bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.packed_pool import DTYPE, Packed, PackedPool
from sglang_platform.conformance.fixtures.poisoned_pool import page_sizes
from sglang_platform.conformance.fixtures.pool_contents import layer_named
from sglang_platform.conformance.fixtures.pool_memory import bytes_behind
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import all_of, kv_dtype, kv_kind
from sglang_platform.conformance.subject import Subject

_PACKS = (all_of(kv_kind("dsa"), kv_dtype(DTYPE)),)
_FIX = (
    "keep the latent in tiles of 128 fp8 numbers, each tile with its own float32 scale (largest number / 448), and the"
    " rotated part in bfloat16"
)


def packed_rows(subject: Subject, rng: random.Random) -> Iterator[Packed]:
    sizes = page_sizes(subject, "dsa")
    yield Packed(sizes[0], 128, 16)
    yield Packed(sizes[-1], 256, 64)
    yield Packed(sizes[-1], 512, 64)


@check(level=Level.MEMORY, requires=_PACKS, cases=packed_rows, founds="dsa pool", fix=_FIX)
def dsa_packed_rows_read_back(subject: Subject, case: Packed) -> None:
    """With an fp8 dtype and the width in bytes of a packed row, latent rows, none too, are stored whole or in two
    parts, moved, copied to the CPU and back; what `get_mla_kv_buffer()` gives is within the rounding of a scale per
    128 numbers."""
    pool = PackedPool(subject, case)
    pool.verify("filling the pool")
    for count, whole in ((1, True), (0, True), (0, False), (5, False), (pool.slots - case.page_size, True)):
        slots = pool.some_slots(count)
        pool.store(4, slots, pool.random_rows(count), whole=whole)
        pool.verify(f"storing {count} rows {'whole' if whole else 'in two parts'} in layer 4")
    nothing = pool.pool.get_mla_kv_buffer(
        layer_named(4), pool.some_slots(0).to(subject.device), torch.float32
    )
    expect(
        [len(part) for part in nothing] == [0, 0],
        f"get_mla_kv_buffer() of no slots gives parts of {[list(part.shape) for part in nothing]}",
        case={"slots": 0},
    )
    slots = pool.some_slots(6)
    here, there = slots[:4], slots[2:]
    copy = pool.pool.get_cpu_copy(here.to(subject.device))
    kept = {layer: rows[here].clone() for layer, rows in pool.held.items()}
    pool.store(3, here, pool.random_rows(4), whole=True)
    pool.pool.load_cpu_copy(copy, there.to(subject.device))
    for layer, rows in kept.items():
        pool.held[layer][there] = rows
    pool.verify("copying rows to the CPU and back")
    if (
        subject.host == "none"
    ):  # in SGLang it may take a kernel of its own, see move_is_as_if_all_were_read_first
        pool.pool.move_kv_cache(there.to(subject.device), here.to(subject.device))
        for rows in pool.held.values():
            rows[there] = rows[here].clone()
        pool.verify("moving rows")


@check(level=Level.MEMORY, requires=_PACKS, cases=packed_rows, fix=_FIX)
def dsa_packed_rows_take_their_width(subject: Subject, case: Packed) -> None:
    """A packed row has `kv_cache_dim` bytes: the stated size counts them, the indexer's keys and the padding page."""
    pool = PackedPool(subject, case)
    tensors = [getter(layer) for layer in pool.layers for getter in _getters(pool.pool)]
    least = len(pool.layers) * pool.slots * case.width
    covered, most = bytes_behind(tensors)
    stated = pool.pool.get_kv_size_bytes()
    expect(
        least <= covered <= stated <= most,
        f"get_kv_size_bytes() is {stated}; the buffers have {covered} bytes, and {pool.slots} slots of {case.width}"
        f" bytes in {len(pool.layers)} layers take {least} without the indexer's keys",
    )


def _getters(pool: Any) -> list[Any]:
    names = ("get_key_buffer", "get_value_buffer", "get_index_k_with_scale_buffer")
    return [getattr(pool, name) for name in names if hasattr(pool, name)]
