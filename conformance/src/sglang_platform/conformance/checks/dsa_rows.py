"""Level 3: a DSA pool: the indexer's keys page by page, layers that keep none, and packed rows of fp8."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.fixtures.far_rows import expect_room
from sglang_platform.conformance.fixtures.packed_pool import DTYPE, Packed, PackedPool
from sglang_platform.conformance.fixtures.poisoned_pool import INDEXER, PoisonedPool, page_sizes
from sglang_platform.conformance.fixtures.pool_contents import PoolContents, layer_named
from sglang_platform.conformance.fixtures.pool_memory import bytes_behind
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.stored_bytes import raw_bytes
from sglang_platform.conformance.requirement import all_of, kv_dtype, kv_kind
from sglang_platform.conformance.subject import Subject

_DIM = 128
_SIGNED = 2**15
"""Numbers of 16 bits with a sign end there."""

_FAR_PAGES = (1, 2, _SIGNED + 1, _SIGNED, 2 * _SIGNED + 2, 2 * _SIGNED)

_PREFILL = 1300
"""Tokens of one store, more than a block of 1,024 threads has."""

_READERS = ("get_index_k_continuous", "get_index_k_scale_continuous")


_check = partial(check, level=Level.MEMORY, requires=[kv_kind("dsa")])


class _Drawn:
    """Keys of fp8 and their scales, random, of the tokens of `pages`, in that order."""

    def __init__(
        self, subject: Subject, generator: torch.Generator, page_size: int, pages: Sequence[int], tokens: int
    ) -> None:
        self.subject, self.page_size, self.tokens = subject, page_size, tokens
        self.pages = torch.tensor(pages, device=subject.device, dtype=torch.int32)
        self.slots = (torch.tensor(pages)[:, None] * page_size + torch.arange(page_size)).flatten()[:tokens]
        self.keys = torch.randint(0, 120, (tokens, _DIM), generator=generator, dtype=torch.uint8)
        self.scales = torch.rand(tokens, _DIM // 128, generator=generator) + 0.5

    def store(self, pool: Any, layer_id: int) -> None:
        device, keys = self.subject.device, self.keys.view(torch.float8_e4m3fn)
        pool.set_index_k_scale_buffer(
            layer_id, self.slots.to(device), keys.to(device), self.scales.to(device)
        )

    def expect_read(self, pool: Any, layer_id: int, fix: str | None = None) -> None:
        for name, wanted in zip(_READERS, (self.keys, self.scales), strict=True):
            got = raw_bytes(getattr(pool, name)(layer_id, self.tokens, self.pages)).reshape(self.tokens, -1)
            wrong = np.flatnonzero((got != raw_bytes(wanted)).any(axis=1))
            page = self.pages[int(wrong[0]) // self.page_size].item() if len(wrong) else None
            expect(page is None, f"{name}() does not give back what was stored in page {page}", fix=fix)


@dataclass(frozen=True)
class Keys:
    page_size: int
    tokens: int
    far: bool = False
    """In the first and the last of more than 2**16 pages."""


def keys(subject: Subject, rng: random.Random) -> Iterator[Keys]:
    sizes = page_sizes(subject, "dsa")
    yield from (Keys(size, tokens) for size in sizes for tokens in (1, 2 * size + 1))
    yield Keys(sizes[-1], _PREFILL)
    yield Keys(min(sizes), len(_FAR_PAGES) * min(sizes), far=True)


@_check(
    cases=keys,
    founds="dsa pool",
    fix="a page is one row of bytes: the fp8 keys of all its tokens, then the float32 scales of all; token t of page p"
    " is slot p * page_size + t",
)
def dsa_index_keys_read_back(subject: Subject, case: Keys) -> None:
    """The indexer's keys and scales land in their place of the page, and are read back request by request, whose pages
    go up or down, and of several requests at once, by a table of pages that is a slice of a wider one; those of the
    first and of the last of more than 2**16 pages as well."""
    if case.far:
        _expect_read_far(subject, case)
        return
    size, generator = 4 * case.page_size + case.tokens, subject.torch_rng()
    pool = PoisonedPool(
        subject, "dsa", size=size, page_size=case.page_size, index_head_dim=_DIM, start_layer=1
    )
    page_ids = list(range(1, 1 + -(-case.tokens // case.page_size)))
    for layer_id, order in zip(pool.layers, (page_ids, page_ids[::-1]), strict=False):
        drawn = _Drawn(subject, generator, case.page_size, order, case.tokens)
        drawn.store(pool.pool, layer_id)
        rows = np.concatenate((raw_bytes(drawn.keys), raw_bytes(drawn.scales)), axis=1)
        pool.image.store(f"{INDEXER} of layer {layer_id}", drawn.slots.tolist(), rows)
        pool.verify(f"storing the indexer's keys of {case.tokens} tokens")
        drawn.expect_read(
            pool.pool, layer_id, fix="walk the request's pages in the order given, and cut at its length"
        )
    if hasattr(pool.pool, "get_index_k_scale_buffer"):
        _expect_read_together(subject, case, pool, page_ids)


def _expect_read_far(subject: Subject, case: Keys) -> None:
    size = max(_FAR_PAGES) * case.page_size
    expect_room(subject, size * 256)
    pool = subject.pool("dsa", size=size, page_size=case.page_size, layer_num=1, index_head_dim=_DIM)
    drawn = _Drawn(subject, subject.torch_rng(), case.page_size, _FAR_PAGES, case.tokens)
    drawn.store(pool, 0)
    drawn.expect_read(pool, 0, fix="number pages in 32 bits at least: a server has a hundred thousand")


def _expect_read_together(subject: Subject, case: Keys, pool: PoisonedPool, page_ids: list[int]) -> None:
    """Of one request of the case's tokens, one without tokens, and one whose only page is the first's last."""
    rest, layer_id = case.tokens - (len(page_ids) - 1) * case.page_size, pool.layers[0]
    table = torch.zeros(3, len(page_ids) + 3, dtype=torch.int32)
    table[0, : len(page_ids)], table[2, 0] = torch.tensor(page_ids), page_ids[-1]
    given = table.to(subject.device)[:, : len(page_ids)]
    lengths = torch.tensor([case.tokens, 0, rest], dtype=torch.int32, device=subject.device)
    got = pool.pool.get_index_k_scale_buffer(layer_id, lengths, given, case.tokens + rest, case.tokens)
    for one, name in zip(got, _READERS, strict=True):
        wanted = [
            raw_bytes(getattr(pool.pool, name)(layer_id, n, pool.locations(pages, torch.int32))).reshape(-1)
            for n, pages in ((case.tokens, page_ids), (rest, page_ids[-1:]))
        ]
        expect(
            np.array_equal(raw_bytes(one).reshape(-1), np.concatenate(wanted)),
            f"of requests of {case.tokens}, 0 and {rest} tokens get_index_k_scale_buffer() does not give what {name}()"
            " gives of each, one behind the other",
            fix="walk each request's row of page_indices by its stride, and cut at its own length",
        )


_ALONG = "copy the rows of every layer, and the indexer's keys of each layer that has some, out and back"


@dataclass(frozen=True)
class Skipped:
    page_size: int
    layers: tuple[bool, ...]
    """Which keep no keys."""


def skipped(subject: Subject, rng: random.Random) -> Iterator[Skipped]:
    sizes = page_sizes(subject, "dsa")
    yield Skipped(sizes[0], (False, True, True))
    yield Skipped(sizes[-1], (True, False, True, False))


@_check(
    cases=skipped,
    hosts=["none"],
    fix="where skip_topk_layers[i] is set, allocate no indexer keys for layer i, leave them out of copies and moves,"
    " and refuse to store them, with an error that names the layer",
)
def layers_without_index_keys(subject: Subject, case: Skipped) -> None:
    """A pool of which some layers keep no indexer keys stores and reads those of the others, lists them for transfers
    in the places of all layers, goes to the CPU and comes back, and refuses keys for a layer that has none."""
    first, page, tokens = 3, case.page_size, 5
    fields = {"size": -(-max(32, 4 * page) // page) * page, "page_size": page, "index_head_dim": _DIM}
    fields |= {"layer_num": len(case.layers), "start_layer": first}
    fields |= {"skip_topk_layers": list(case.layers)}
    pool, given = subject.pool("dsa", **fields), subject.pool_keywords("dsa", **fields)
    contents = PoolContents(subject.fixture("dsa"), pool, given, subject.device)
    generator, held = subject.torch_rng(), {}
    slots, there = torch.arange(tokens) + page, torch.arange(tokens) + 2 * page + tokens
    for layer_id, none in enumerate(case.layers, first):
        rows = torch.randn((tokens, *contents.row_shapes["rows"]), generator=generator).to(given["dtype"])
        contents.store(layer_named(layer_id), slots, [rows])
        drawn = _Drawn(subject, generator, page, range(1, 1 + tokens), tokens)
        drawn.slots = slots
        if none:
            _expect_refused(pool, layer_id, drawn)
        else:
            drawn.store(pool, layer_id)
        held[layer_id] = (rows, None if none else drawn.keys)
    if hasattr(pool, "get_state_buf_infos"):
        lengths = list(pool.get_state_buf_infos()[2])
        # The host counts layers by their place in the list (`index_key_cache.py`, SGLang 0.5.18).
        expect(
            [length > 0 for length in lengths] == [not none for none in case.layers],
            f"get_state_buf_infos() lists {lengths} bytes per page, and layers {list(case.layers)} keep no keys",
            fix="list every layer in its place, with 0 bytes per page where it keeps no keys",
        )
    subject.stands_on("copies of the dsa pool")
    pool.load_cpu_copy(pool.get_cpu_copy(slots.to(subject.device)), there.to(subject.device))
    for layer_id, (rows, kept) in held.items():
        for where in (slots, there):
            rest = (
                f"of layer {layer_id} in slots {where.tolist()} are not those that were stored, or came back"
            )
            got = contents.rows(layer_id)["rows"].read()[where]
            expect(np.array_equal(got, raw_bytes(rows)), f"the rows {rest}", fix=_ALONG)
            index = None if kept is None else contents.fixture.index_keys(pool, layer_id, given)
            same = index is not None and np.array_equal(index.read()[where, :_DIM], kept.numpy())
            expect(kept is None or same, f"the indexer keys {rest}", fix=_ALONG)


def _expect_refused(pool: Any, layer_id: int, drawn: _Drawn) -> None:
    """A layer without keys refuses them in words about the layer."""
    keys = f"indexer keys for layer {layer_id}"
    try:
        drawn.store(pool, layer_id)
    except Exception as error:  # noqa: BLE001 - any clear refusal will do
        expect(
            str(layer_id) in str(error) and not isinstance(error, IndexError),
            f"{keys}, which keeps none, raise {type(error).__name__}: {error}; that does not name the layer",
        )
    else:
        raise CheckFailed(f"{keys} are taken, and skip_topk_layers says that it keeps none")


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
    128 numbers. The stated size counts `kv_cache_dim` bytes for each row, the indexer's keys and the padding page."""
    pool = PackedPool(subject, case)
    pool.verify("filling the pool")
    _expect_stated(pool, case)
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


def _expect_stated(pool: PackedPool, case: Packed) -> None:
    names = ("get_key_buffer", "get_value_buffer", "get_index_k_with_scale_buffer")
    getters = [getattr(pool.pool, name) for name in names if hasattr(pool.pool, name)]
    tensors = [getter(layer) for layer in pool.layers for getter in getters]
    least = len(pool.layers) * pool.slots * case.width
    covered, most = bytes_behind(tensors)
    stated = pool.pool.get_kv_size_bytes()
    expect(
        least <= covered <= stated <= most,
        f"get_kv_size_bytes() is {stated}; the buffers have {covered} bytes, and {pool.slots} slots of {case.width}"
        f" bytes in {len(pool.layers)} layers take {least} without the indexer's keys",
    )
