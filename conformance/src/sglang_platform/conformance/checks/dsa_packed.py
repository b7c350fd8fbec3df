"""Level 3: the packed fp8 rows of a DSA pool, judged by what is read back, whatever the order of their bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.fixtures.poisoned_pool import page_sizes
from sglang_platform.conformance.fixtures.pool_contents import layer_named
from sglang_platform.conformance.fixtures.pool_memory import bytes_behind
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.precision import format_of
from sglang_platform.conformance.requirement import all_of, kv_dtype, kv_kind
from sglang_platform.conformance.subject import Subject

TILE = 128
_SMALL = 1e-5
"""The largest number of a small tile."""

_LEAST = 1e-4
"""Scales need not follow tiles whose largest number is smaller: DeepSeek's own do not."""
DTYPE = "float8_e4m3fn"
"""The type that SGLang packs rows of."""

_PACKS = (all_of(kv_kind("dsa"), kv_dtype(DTYPE)),)
_FIX = (
    "keep the latent in tiles of 128 fp8 numbers, each tile with its own float32 scale (largest number / 448), and the"
    " rotated part in bfloat16"
)


@dataclass(frozen=True)
class Packed:
    page_size: int
    rank: int
    rotated: int

    @property
    def width(self) -> int:
        """Bytes of a row."""
        return self.rank + 4 * (self.rank // TILE) + 2 * self.rotated


def packed_rows(subject: Subject, rng: random.Random) -> Iterator[Packed]:
    sizes = page_sizes(subject, "dsa")
    yield Packed(sizes[0], 128, 16)
    yield Packed(sizes[-1], 256, 64)
    yield Packed(sizes[-1], 512, 64)


class PackedPool:
    """The pool, and what its slots must be worth."""

    def __init__(self, subject: Subject, case: Packed) -> None:
        self.case, self.device = case, subject.device
        self.generator = subject.torch_rng()
        self.fields = subject.pool_keywords(
            "dsa",
            size=3 * case.page_size + (-(3 * case.page_size) % 16),
            page_size=case.page_size,
            dtype=DTYPE,
            kv_lora_rank=case.rank,
            qk_rope_head_dim=case.rotated,
            kv_cache_dim=case.width,
            layer_num=2,
            start_layer=3,
        )
        try:
            self.pool = subject.pool("dsa", **self.fields)
        except NotImplementedError as refused:
            expect(str(refused), "packed rows are refused without a word")
            raise NotApplicable(f"the pool refuses packed rows: {refused}") from refused
        self.layers = (3, 4)
        self.slots = self.fields["size"] + case.page_size
        everywhere = torch.arange(self.slots)
        self.held = {layer: self.random_rows(self.slots) for layer in self.layers}
        for layer in self.layers:
            self.store(layer, everywhere, self.random_rows(self.slots), whole=True)

    def random_rows(self, n: int) -> torch.Tensor:
        """bfloat16 [n, 1, rank + rotated]. Tiles differ in size by a thousand: a scale for all would lose the small.
        Of five rows one has a tile of zeros, one a tile of numbers whose scale float16 does not hold, and one rotated
        numbers that float16 does not hold."""
        rank = self.case.rank
        rows = torch.randn(n, 1, rank + self.case.rotated, generator=self.generator)
        for tile in range(rank // TILE):
            rows[..., tile * TILE : (tile + 1) * TILE] *= 32.0 ** (tile % 3) / 16
        rows[1::5, :, rank - TILE : rank] = 0
        rows[2::5, :, :TILE] *= _SMALL / rows[2::5, :, :TILE].abs().amax(dim=-1, keepdim=True)
        rows[3::5, :, rank::2] *= 1e5
        rows[3::5, :, rank + 1 :: 2] *= 1e-7
        return rows.to(torch.bfloat16)

    def some_slots(self, n: int) -> torch.Tensor:
        """None of the padding page."""
        first = self.case.page_size
        return torch.randperm(self.slots - first, generator=self.generator)[:n] + first

    def store(self, layer: int, slots: torch.Tensor, rows: torch.Tensor, *, whole: bool) -> None:
        """In one piece or in two, and remember it."""
        loc, given = slots.to(self.device), rows.to(self.device)
        if whole:
            self.pool.set_kv_buffer(layer_named(layer), loc, given, given[..., : self.case.rank])
        else:
            latent, rotated = given[..., : self.case.rank], given[..., self.case.rank :]
            self.pool.set_mla_kv_buffer(layer_named(layer), loc, latent, rotated)
        self.held[layer][slots] = rows

    def verify(self, after: str) -> None:
        """Every slot of every layer is worth what was stored, but for the padding page's, which nobody reads."""
        everywhere = torch.arange(self.slots, device=self.device)
        for layer, rows in self.held.items():
            got = self.pool.get_mla_kv_buffer(layer_named(layer), everywhere, torch.float32)
            parts, wanted = [part.clone() for part in got], rows.double()
            for one in (*parts, wanted):
                one[: self.case.page_size] = 0
            self._verify(f"after {after}: layer {layer}", parts, wanted)

    def _verify(self, where: str, got: Any, wanted: torch.Tensor) -> None:
        rank = self.case.rank
        latent, rotated = (part.cpu().double().reshape(self.slots, -1) for part in got)
        wanted = wanted[:, 0]
        tiles = wanted[:, :rank].reshape(self.slots, -1, TILE)
        form = format_of(torch.float8_e4m3fn)
        # A scale may be rounded up to a power of two: half of the range is left then, and the smallest steps double.
        scale = 2 * tiles.abs().amax(dim=-1, keepdim=True).clamp(min=_LEAST) / form.largest
        bound = (tiles.abs() * form.unit_roundoff * 1.02 + scale * 2.0**-10).reshape(self.slots, rank)
        for part, values, true, limit in (
            ("latent", latent, wanted[:, :rank], bound),
            ("rotated", rotated, wanted[:, rank:], torch.zeros(1, dtype=torch.float64)),
        ):
            off = (values - true).abs()
            wrong = torch.nonzero(~(off <= limit).all(dim=1)).flatten().tolist()
            if wrong:
                slot = wrong[0]
                at = int(
                    (off[slot] - (limit[slot] if len(limit) > 1 else 0)).nan_to_num(float("inf")).argmax()
                )
                expect(
                    False,
                    f"{where}, the {part} part of slots {wrong[:6]} is not what was stored: number {at} of slot {slot}"
                    f" is {float(values[slot, at]):.6g}, and must be {float(true[slot, at]):.6g}",
                )


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
