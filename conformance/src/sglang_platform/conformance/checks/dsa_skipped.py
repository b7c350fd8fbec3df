"""Level 3: layers of a DSA pool that keep no keys for the indexer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.fixtures.poisoned_pool import page_sizes
from sglang_platform.conformance.fixtures.pool_contents import PoolContents, layer_named
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.stored_bytes import raw_bytes
from sglang_platform.conformance.requirement import kv_kind
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_DIM = 128
_TOKENS = 5


@dataclass(frozen=True)
class Skipped:
    page_size: int
    layers: tuple[bool, ...]
    """Which keep no keys."""


def skipped(subject: Subject, rng: random.Random) -> Iterator[Skipped]:
    sizes = page_sizes(subject, "dsa")
    yield Skipped(sizes[0], (False, True, True))
    yield Skipped(sizes[-1], (True, False, True, False))


@check(
    level=Level.MEMORY,
    requires=[kv_kind("dsa")],
    cases=skipped,
    hosts=["none"],
    fix="where skip_topk_layers[i] is set, allocate no indexer keys for layer i, leave them out of copies and moves,"
    " and refuse to store them, with an error that names the layer",
)
def layers_without_index_keys(subject: Subject, case: Skipped) -> None:
    """A pool of which some layers keep no indexer keys stores and reads those of the others, lists them for transfers
    in the places of all layers, goes to the CPU and comes back, and refuses keys for a layer that has none."""
    first, page = 3, case.page_size
    fields = {
        "size": -(-max(32, 4 * page) // page) * page,
        "page_size": page,
        "layer_num": len(case.layers),
        "start_layer": first,
        "index_head_dim": _DIM,
        "skip_topk_layers": list(case.layers),
    }
    pool = subject.pool("dsa", **fields)
    given = subject.pool_keywords("dsa", **fields)
    contents = PoolContents(subject.fixture("dsa"), pool, given, subject.device)
    generator = subject.torch_rng()
    slots, there = (torch.arange(_TOKENS) + page, torch.arange(_TOKENS) + 2 * page + _TOKENS)
    held = {}
    for at, none in enumerate(case.layers):
        rows = torch.randn((_TOKENS, *contents.row_shapes["rows"]), generator=generator).to(given["dtype"])
        contents.store(layer_named(first + at), slots, [rows])
        keys = torch.randint(0, 120, (_TOKENS, _DIM), generator=generator, dtype=torch.uint8)
        scales = torch.rand(_TOKENS, 1, generator=generator) + 0.5
        if none:
            _refused(subject, pool, first + at, slots, keys, scales)
        else:
            _set(subject, pool, first + at, slots, keys, scales)
        held[first + at] = (rows, None if none else keys)
    if hasattr(pool, "get_state_buf_infos"):
        _judge_infos(case, list(pool.get_state_buf_infos()[2]))
    copy = pool.get_cpu_copy(slots.to(subject.device))
    pool.load_cpu_copy(copy, there.to(subject.device))
    for layer_id, (rows, kept) in held.items():
        for where in (slots, there):
            got = contents.rows(layer_id)["rows"].read()[where]
            expect(
                np.array_equal(got, raw_bytes(rows)),
                f"the rows of layer {layer_id} in slots {where.tolist()} are not those that were stored, or came back",
            )
            if kept is None:
                continue
            index = contents.fixture.index_keys(pool, layer_id, given)
            expect(
                index is not None and np.array_equal(index.read()[where, :_DIM], kept.numpy()),
                f"the indexer keys of layer {layer_id} in slots {where.tolist()} are not those that were stored, or"
                " came back",
            )


def _judge_infos(case: Skipped, page_lengths: list[int]) -> None:
    """The host counts layers by their place in the list (`index_key_cache.py`, SGLang 0.5.18)."""
    expect(
        [length > 0 for length in page_lengths] == [not none for none in case.layers],
        f"get_state_buf_infos() lists {page_lengths} bytes per page, and layers {list(case.layers)} keep no keys",
        fix="list every layer in its place, with 0 bytes per page where it keeps no keys",
    )


def _set(
    subject: Subject,
    pool: object,
    layer_id: int,
    slots: torch.Tensor,
    keys: torch.Tensor,
    scales: torch.Tensor,
) -> None:
    loc, device = slots.to(subject.device), subject.device
    pool.set_index_k_scale_buffer(  # type: ignore[attr-defined]
        layer_id, loc, keys.view(torch.float8_e4m3fn).to(device), scales.to(device)
    )


def _refused(subject: Subject, pool: object, layer_id: int, *given: torch.Tensor) -> None:
    """A layer without keys refuses them in words about the layer."""
    try:
        _set(subject, pool, layer_id, *given)
    except Exception as error:  # noqa: BLE001 - any clear refusal will do
        expect(
            str(layer_id) in str(error) and not isinstance(error, IndexError),
            f"indexer keys for layer {layer_id}, which keeps none, raise {type(error).__name__}: {error}; that does not"
            " name the layer",
        )
        return
    raise CheckFailed(
        f"indexer keys for layer {layer_id} are taken, and skip_topk_layers says that it keeps none"
    )
