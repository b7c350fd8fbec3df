"""Level 3: rows that lie more than 2**31 bytes behind the start of their buffer."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.fixtures.far_rows import BEHIND, expect_room
from sglang_platform.conformance.fixtures.pool_contents import PoolContents, layer_named
from sglang_platform.conformance.fixtures.row_layouts import Strided, as_bits, layout_by_shape
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.errors import PlatformError

_ROWS = {"mha": (8, 128, 16), "mla": (512, 64)}
"""Of several KiB a token, and values far narrower than keys, so that one buffer takes most of the memory."""

_LAYERS = 9
"""Of a quarter of such a buffer each."""


@dataclass(frozen=True)
class Far:
    kind: str
    page_size: int
    slots: int
    size: int
    """In bytes, of all buffers."""
    layers: int = 1


def far_pools(subject: Subject, rng: random.Random) -> Iterator[Far]:
    """Of the first kind that is declared; thorough: of each: a pool of one layer, of which a row lies far, and one of
    nine, of which the last begins more than 2**32 bytes behind the first."""
    kinds = [kind for kind in _ROWS if kind in subject.declares.kv_kinds]
    width = getattr(torch, subject.declares.kv_dtypes[0]).itemsize
    for kind in kinds if subject.thorough else kinds[:1]:
        shapes = subject.fixture(kind).row_shapes(subject.fixture(kind).keywords(_ROWS[kind]))
        widths = [width * shape[0] * shape[1] for shape in shapes.values()]
        page = max(subject.declares.page_sizes)
        pages = -(-(BEHIND // widths[0] + 4096) // page)
        size = pages * page * sum(widths)
        yield Far(kind, page, pages * page, size)
        yield Far(kind, page, -(-pages // 4) * page, size // 4 * _LAYERS, _LAYERS)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=far_pools,
    seconds=180,
    fix="compute where a row lies in 64 bits: slot * bytes of a row is more than 32 bits count in a pool of a few GiB;"
    " so is where a layer begins, where all lie in one allocation",
)
def far_rows_read_back(subject: Subject, case: Far) -> None:
    """In a pool of which a buffer has more than 2**31 bytes, or all have more than 2**32, what is stored in the first
    and the last slots and around the edge is read back from each layer; so is what was copied to the CPU and back; and
    it states no fewer bytes than its rows take, to the host and to a transfer engine."""
    expect_room(subject, case.size)
    fixture = subject.fixture(case.kind)
    fields = {**fixture.keywords(_ROWS[case.kind]), "page_size": case.page_size}
    fields |= {"size": case.slots, "layer_num": case.layers}
    pool, given = subject.pool(case.kind, **fields), subject.pool_keywords(case.kind, **fields)
    contents = PoolContents(fixture, pool, given, subject.device, to_be_read=False)
    _expect_stated(case, pool)
    last = case.slots + case.page_size - 1
    edge = last - 4096
    starts = case.page_size, edge - 3, edge + 1200, last - 5
    slots = [slot for start in starts for slot in range(start, start + 6)]
    generator = subject.torch_rng()
    shapes = contents.row_shapes.values()
    stored = {
        layer_id: [
            torch.randn((len(slots), *shape), generator=generator).to(given["dtype"]) for shape in shapes
        ]
        for layer_id in contents.layers
    }
    for layer_id, rows in stored.items():
        contents.store(layer_named(layer_id), slots, rows)
    for layer_id, rows in stored.items():
        _expect_held(contents, layer_id, slots, rows, f"storing in {case.layers} layers, in layer {layer_id}")
    low, high = (torch.tensor(part, device=subject.device) for part in (slots[:6], slots[-6:]))
    pool.load_cpu_copy(pool.get_cpu_copy(high), low)
    for layer_id, rows in stored.items():
        for row in rows:
            row[:6] = row[-6:]
        after = f"copying the last rows to the CPU and back to the first slots, in layer {layer_id}"
        _expect_held(contents, layer_id, slots, rows, after)


def _expect_stated(case: Far, pool: Any) -> None:
    """What the pool says of its size counts its rows: less is what 32 bits leave of it."""
    stated = pool.get_kv_size_bytes()
    told = {
        "get_kv_size_bytes() is": sum(stated) if isinstance(stated, tuple) else stated,
        "mem_usage, in bytes, is": pool.mem_usage * 2**30,
    }
    with contextlib.suppress(RuntimeError, PlatformError):  # transfer may be refused
        told["the lengths of get_contiguous_buf_infos() add up to"] = sum(pool.get_contiguous_buf_infos()[1])
    for what, number in told.items():
        expect(
            number >= 0.95 * case.size,
            f"{what} {number:.9g}, and the rows of {case.slots} slots in {case.layers} layers take {case.size} bytes",
            fix="add up the bytes of all buffers in 64 bits, as Python's whole numbers are: the host plans its memory"
            " by get_kv_size_bytes(), and moves pages by get_contiguous_buf_infos()",
        )


def _expect_held(
    contents: PoolContents, layer_id: int, slots: list[int], rows: list[torch.Tensor], after: str
) -> None:
    parts = contents.fixture.buffers(contents.pool, layer_id, contents.given)
    for (name, buffers), wanted in zip(parts.items(), rows, strict=True):
        got = torch.cat([_held(contents, buffer, row, slots) for buffer, row in buffers], dim=-1)
        wrong = torch.nonzero((got.view(wanted.dtype) != wanted).flatten(1).any(dim=1)).flatten().tolist()
        if wrong:
            slot = slots[wrong[0]]
            raise CheckFailed(
                f"after {after}, the {name} of slot {slot} are not what was stored; their row lies"
                f" {slot * wanted[0].nbytes} bytes behind the first, where rows are not padded",
            )


def _held(contents: PoolContents, buffer: Any, row: tuple[int, int], slots: list[int]) -> torch.Tensor:
    """The bits of some rows, [n, *row], without a copy of the whole buffer."""
    page = contents.given["page_size"]
    layout = layout_by_shape(buffer.shape, row, page, contents.slots)
    if not isinstance(layout, Strided):
        raise NotApplicable(f"rows are not looked for in a buffer of {list(buffer.shape)}")
    view, at = layout.view(as_bits(buffer)), torch.tensor(slots, device=buffer.device)
    paged = view.dim() > len(row) + 1
    return (view[at // page, at % page] if paged else view[at]).cpu().contiguous()
