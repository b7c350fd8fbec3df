"""Level 3: what is stored in a KV pool is read back, byte for byte, and nothing else is written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool
from sglang_platform.conformance.fixtures.pool_cases import Pool, deep_pools, each_kind, large_pools, pools
from sglang_platform.conformance.fixtures.pool_contents import PoolContents, layer_named
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=pools,
    founds="{kind} pool",
    fix="in set_kv_buffer() write row loc[i] of the named layer's buffer from row i of the input, and nothing else;"
    " layers count from the pool's start_layer",
)
def store_reads_back(subject: Subject, case: Pool) -> None:
    """What is stored is read back byte for byte, for every kind, dtype, page size, row shape and layer range, and no
    other byte of any layer changes."""
    pool = case.build(subject)
    for count in (1, 2, min(19, pool.last_slot - 1)):
        for layer_id in pool.layers:
            slots = pool.some_slots(count)
            pool.store(layer_id, slots, pool.random_rows(len(slots)))
            pool.verify(f"storing {len(slots)} tokens in layer {layer_id}, slots {slots[:6]}")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=large_pools,
    seconds=120,
    fix="number slots in 64 bits, and launch over all tokens given: a prefill stores thousands at once",
)
def prefills_are_stored_in_large_pools(subject: Subject, case: Pool) -> None:
    """4,096 tokens at once, over a pool of 66,000 slots, the last among them, are stored; then others over them."""
    pool = case.build(subject)
    slots = list({*pool.some_slots(4095), pool.last_slot})
    for what in ("storing", "storing again"):
        pool.store(0, slots, pool.random_rows(len(slots)))
        pool.verify(f"{what} {len(slots)} tokens")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind,
    fix="buffers are handed to attention before all slots are written: allocate them with zeros",
)
def fresh_buffers_are_zero(subject: Subject, case: Pool) -> None:
    """A new pool holds zeros, so that a padded or unwritten slot is never NaN."""
    layouts = None
    for _ in range(
        2
    ):  # the memory of a pool that was full of NaN is the likeliest to be given to the next one
        used = case.build(subject)
        for rows in used.rows().values():
            for tensor in rows.tensors:
                tensor.copy_(torch.full(tensor.shape, float("nan")).to(tensor.dtype))
        layouts = used.contents.layouts
        del used, rows, tensor
    given = subject.pool_keywords(case.kind, **case.keywords(subject))
    pool = subject.pool(case.kind, **case.keywords(subject))
    contents = PoolContents(subject.fixture(case.kind), pool, given, subject.device, layouts)
    for name, rows in contents.everything().items():
        where = rows.read().any(axis=1).nonzero()[0]
        expect(
            len(where) == 0,
            f"slot {int(where[0]) if len(where) else 0} of the {name} of a new pool is not zero",
        )


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=deep_pools,
    fix="give each layer memory of its own, at place layer_id - start_layer, however many there are",
)
def layers_of_deep_models_are_apart(subject: Subject, case: Pool) -> None:
    """In a pool of 80 layers, and in one of the layers from 41 on, each layer keeps what was stored in it."""
    pool = case.build(subject)
    slots = pool.some_slots(3)
    for layer_id in pool.layers:
        pool.store(layer_id, slots, pool.random_rows(3))
    pool.verify(f"storing 3 tokens in each of layers {pool.layers[0]} to {pool.layers[-1]}")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind,
    fix="return from set_kv_buffer() at once when loc is empty: an idle rank stores nothing",
)
def empty_store_changes_nothing(subject: Subject, case: Pool) -> None:
    """Storing no tokens is legal and writes nothing: whole rows, rows in two parts, the indexer's keys."""
    pool = case.build(subject)
    first, nowhere = pool.layers[0], pool.locations([])
    pool.store(first, [], pool.random_rows(0))
    pool.verify("storing nothing")
    if pool.fixture.values_in_keys and hasattr(pool.pool, "set_mla_kv_buffer"):
        (rows,) = pool.random_rows(0)
        parts = rows[..., : case.row[0]], rows[..., case.row[0] :]
        pool.pool.set_mla_kv_buffer(layer_named(first), nowhere, *parts)
        pool.verify("storing no rows in two parts")
    if pool.index_keys():
        keys = torch.zeros(0, pool.given["index_head_dim"], dtype=torch.uint8).view(torch.float8_e4m3fn)
        scales = torch.zeros(0, pool.given["index_head_dim"] // 128)
        pool.pool.set_index_k_scale_buffer(first, nowhere, keys.to(subject.device), scales.to(subject.device))
        pool.verify("storing no indexer keys")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind,
    fix="let padded tokens write to slot 0 like any other slot: it is allocated, and nobody reads it",
)
def padding_slot_takes_padded_tokens(subject: Subject, case: Pool) -> None:
    """Several padded tokens may name slot 0 in one store; the real tokens beside them arrive, and nothing else."""
    pool = case.build(subject)
    real = pool.some_slots(3)
    slots = [0, real[0], 0, real[1], 0, real[2]]
    given = pool.random_rows(len(slots))
    kept = [rows[torch.tensor([1, 3, 5])] for rows in given]
    layer_id = pool.layers[-1]
    pool.store_through(layer_id, pool.locations(slots), real, given, kept)  # type: ignore[arg-type]
    pool.verify("storing 3 tokens and 3 padded ones")


@dataclass(frozen=True)
class Layout:
    kind: str
    layout: str


def layouts(subject: Subject, rng: random.Random) -> Iterator[Layout]:
    for kind in subject.declares.kv_kinds:
        for layout in ("every second token", "slice of fused qkv", "strided loc", "int32 loc"):
            yield Layout(kind, layout)
        if subject.fixture(kind).has_heads:
            yield Layout(kind, "transposed heads")
            yield Layout(kind, "slices of one projection")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=layouts,
    fix="respect the strides of the input, or call .contiguous() first: keys and values come as slices of a fused"
    " projection, and loc may be a slice as well",
)
def store_takes_any_strides(subject: Subject, case: Layout) -> None:
    """Keys, values and locations that are not contiguous, or int32 locations, are stored like plain ones."""
    wide = {"head_dim": 24, "v_head_dim": 16} if case.layout == "slices of one projection" else {}
    pool = PoisonedPool(subject, case.kind, size=24, layer_num=2, **wide)
    n = 6
    rows = pool.random_rows(n)
    loc = pool.locations(slots := pool.some_slots(n))
    given = list(rows)
    if case.layout == "every second token":
        given = [
            torch.stack((row, torch.full_like(row, 7)), dim=1).reshape(2 * n, *row.shape[1:])[::2]
            for row in rows
        ]
    elif case.layout == "slice of fused qkv":
        fused = torch.cat([torch.ones_like(rows[0]), *rows], dim=-1)
        widths = [rows[0].shape[-1], *(row.shape[-1] for row in rows)]
        given = list(fused.split(widths, dim=-1))[1:]
    elif case.layout == "slices of one projection":  # queries, keys and values of a token side by side
        flat = [row.flatten(1) for row in rows]
        fused = torch.cat([torch.ones(n, 40).to(flat[0]), *flat], dim=1)
        parts = fused.split([40, *(row.shape[1] for row in flat)], dim=1)[1:]
        given = [part.unflatten(1, row.shape[1:]) for part, row in zip(parts, rows, strict=True)]
    elif case.layout == "transposed heads":
        given = [row.transpose(1, 2).contiguous().transpose(1, 2) for row in rows]
    elif case.layout == "strided loc":
        loc = torch.stack((loc, torch.zeros_like(loc)), dim=1)[:, 0]
    else:
        loc = loc.to(torch.int32)
    pool.store_through(pool.layers[1], loc, slots, given, rows)
    pool.verify(f"storing {n} tokens ({case.layout})")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind,
    fix="when layer_id_override is given, store there instead of in layer.layer_id; both count from start_layer",
)
def layer_override_is_followed(subject: Subject, case: Pool) -> None:
    """`layer_id_override` names the layer to store in, in place of the layer's own number."""
    for start_layer in (case.start_layer, 0):  # 0 is a layer, and not "none"
        pool = replace(case, start_layer=start_layer).build(subject)
        first, last = pool.layers[0], pool.layers[-1]
        for layer_id, override in ((first, last), (last, first)):
            slots = pool.some_slots(2)
            rows = pool.random_rows(2)
            pool.store_through(layer_id, pool.locations(slots), slots, rows, rows, layer_id_override=override)
            pool.verify(f"storing with layer {layer_id} and layer_id_override={override}")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind,
    hosts=["none"],
    fix="compare the layer with start_layer and layer_num, and raise: a negative index would land in another layer",
)
def foreign_layer_is_refused(subject: Subject, case: Pool) -> None:
    """A layer of another pipeline stage is refused with an error, on writing and on reading."""
    pool = case.build(subject)
    rows, loc = pool.random_rows(1), pool.locations([1])
    held = f"the pool holds layers {pool.layers[0]} to {pool.layers[-1]}"
    for layer_id in (pool.layers[0] - 1, pool.layers[-1] + 1):
        layer = layer_named(layer_id)
        _refused(
            "set_kv_buffer()", layer_id, held, partial(pool.pool.set_kv_buffer, layer, loc, rows[0], rows[-1])
        )
        _refused("get_key_buffer()", layer_id, held, partial(pool.pool.get_key_buffer, layer_id))
    pool.verify("refusing layers of other stages")


def _refused(name: str, layer_id: int, held: str, call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any clear refusal will do
        expect(str(error), f"{name} for layer {layer_id} raised {type(error).__name__} without a word")
        return
    raise CheckFailed(f"{name} took layer {layer_id}; {held}")
