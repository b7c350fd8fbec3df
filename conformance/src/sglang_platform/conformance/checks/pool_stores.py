"""Level 3: what is stored in a KV pool is read back, byte for byte, and nothing else is written.

A form of store is a row of `_FORMS`: the pools that it is tried in, the stores that it makes, and the fix. After each
store every byte of the pool is compared.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect, mended_by
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool
from sglang_platform.conformance.fixtures.pool_buffers import PoolRows
from sglang_platform.conformance.fixtures.pool_cases import (
    Pool,
    deep_pools,
    each_kind,
    each_kind_and_form,
    large_pools,
    latent_pools,
    pools,
    wide_pools,
    window_pools,
)
from sglang_platform.conformance.fixtures.pool_contents import layer_named
from sglang_platform.conformance.fixtures.row_layouts import layout_by_shape
from sglang_platform.conformance.fixtures.stored_layouts import LAYOUTS, LOCATIONS
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.stored_bytes import raw_bytes
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

Stores = Callable[[PoisonedPool], Iterator[str]]
"""Makes stores, and says after each what it was."""

Pools = Callable[[Subject, random.Random], Iterator[Pool]]


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


def _prefills(pool: PoisonedPool) -> Iterator[str]:
    slots = list({*pool.some_slots(4095), pool.last_slot})
    for what in ("storing", "storing again"):
        pool.store(pool.layers[0], slots, pool.random_rows(len(slots)))
        yield f"{what} {len(slots)} tokens"


def _all_at_once(pool: PoisonedPool) -> Iterator[str]:
    slots = pool.some_slots(pool.last_slot - pool.given["page_size"] - 60)
    pool.store(pool.layers[0], slots, pool.random_rows(len(slots)))
    yield f"storing {len(slots)} tokens at once"


def _each_layer(pool: PoisonedPool) -> Iterator[str]:
    slots = pool.some_slots(9)
    for layer_id in pool.layers:
        pool.store(layer_id, slots, pool.random_rows(len(slots)))
    rows = ", ".join(map(str, pool.row_shapes().values()))
    yield f"storing {len(slots)} tokens in each of layers {pool.layers[0]} to {pool.layers[-1]}, rows of {rows}"


def _nothing(pool: PoisonedPool) -> Iterator[str]:
    first, nowhere = pool.layers[0], pool.locations([])
    pool.store(first, [], pool.random_rows(0))
    yield "storing nothing"
    if pool.fixture.values_in_keys and hasattr(pool.pool, "set_mla_kv_buffer"):
        (rows,), rank = pool.random_rows(0), pool.given["kv_lora_rank"]
        pool.pool.set_mla_kv_buffer(layer_named(first), nowhere, rows[..., :rank], rows[..., rank:])
        yield "storing no rows in two parts"
    if pool.index_keys():
        dim = pool.given["index_head_dim"]
        keys = torch.zeros(0, dim, dtype=torch.uint8).view(torch.float8_e4m3fn).to(pool.device)
        scales = torch.zeros(0, dim // 128, device=pool.device)
        pool.pool.set_index_k_scale_buffer(first, nowhere, keys, scales)
        yield "storing no indexer keys"


def _padded(pool: PoisonedPool) -> Iterator[str]:
    real = pool.some_slots(3)
    slots = [0, real[0], 0, real[1], 0, real[2]]
    given = pool.random_rows(len(slots))
    kept = [rows[[1, 3, 5]] for rows in given]
    pool.store_through(pool.layers[-1], pool.locations(slots), real, given, kept)
    yield "storing 3 tokens and 3 padded ones"


def _overridden(pool: PoisonedPool) -> Iterator[str]:
    first, last = pool.layers[0], pool.layers[-1]
    for layer_id, override in ((first, last), (last, first)):
        slots, rows = pool.some_slots(2), pool.random_rows(2)
        pool.store_through(layer_id, pool.locations(slots), slots, rows, rows, layer_id_override=override)
        yield f"storing with layer {layer_id} and layer_id_override={override}"


def _laid_out(layout: str, pool: PoisonedPool) -> Iterator[str]:
    slots, rows = pool.some_slots(6), pool.random_rows(6)
    loc = LOCATIONS.get(layout, torch.Tensor.clone)(pool.locations(slots))
    pool.store_through(pool.layers[1], loc, slots, LAYOUTS.get(layout, list)(rows), rows)
    yield f"storing {len(slots)} tokens ({layout})"


def _two_parts(pool: PoisonedPool) -> Iterator[str]:
    """Of a latent row, for as many tokens as a prefill has."""
    if not hasattr(pool.pool, "set_mla_kv_buffer"):
        return
    rank, first = pool.given["kv_lora_rank"], pool.layers[0]
    slots = pool.some_slots(min(1200, pool.given["size"] - 3))
    (rows,), loc, layer = pool.random_rows(len(slots)), pool.locations(slots), layer_named(pool.layers[-1])
    pool.pool.set_mla_kv_buffer(layer, loc, rows[..., :rank], rows[..., rank:])
    pool.image.store(f"rows of layer {layer.layer_id}", slots, raw_bytes(rows))
    yield f"storing {len(slots)} rows in two parts"
    if "layer_id_override" in inspect.signature(pool.pool.set_mla_kv_buffer).parameters:
        (more,) = pool.random_rows(2)
        parts = more[..., :rank], more[..., rank:]
        pool.pool.set_mla_kv_buffer(layer, loc[:2], *parts, layer_id_override=first)
        pool.image.store(f"rows of layer {first}", slots[:2], raw_bytes(more))
        yield f"storing rows in two parts with layer {layer.layer_id} and layer_id_override={first}"
    if len(pool.rows()[f"rows of layer {layer.layer_id}"].tensors) > 1:
        return  # the latent part is a buffer of its own, which the image was compared with
    values = pool.pool.get_value_buffer(layer.layer_id)
    layout = layout_by_shape(values.shape, (1, rank), pool.given["page_size"], pool.last_slot + 1)
    held = None if layout is None else PoolRows([(values, layout)]).numbers().cpu().double()[slots]
    expect(
        values.shape[-1] == rank and (held is None or held.equal(rows[..., :rank].cpu().double())),
        f"get_value_buffer() is not the first {rank} numbers of each row",
        fix="return the key buffer's first kv_lora_rank columns as values",
    )


class Form(NamedTuple):
    pools: Pools
    stores: Stores
    fix: str


def _from_layer_0_too(subject: Subject, rng: random.Random) -> Iterator[Pool]:
    """0 is a layer, and not "none"."""
    for pool in each_kind(subject, rng):
        yield from (pool, replace(pool, start_layer=0))


_FORMS = {
    "large pool": Form(
        large_pools,
        _prefills,
        "number slots in 64 bits, and launch over all tokens given: a prefill stores thousands at once",
    ),
    "many rows": Form(
        wide_pools,
        _all_at_once,
        "launch over the first axis of the grid, which takes 2**31 blocks: the others take 65,535, and a prefill of"
        " 8,192 tokens has as many rows of 8 heads",
    ),
    "deep model": Form(
        deep_pools,
        _each_layer,
        "give each layer memory of its own, at place layer_id - start_layer, however many there are",
    ),
    "layers with a window": Form(
        window_pools,
        _each_layer,
        "take swa_head_num, swa_head_dim and swa_v_head_dim where they are given, each for itself, in place of"
        " head_num, head_dim and v_head_dim",
    ),
    "no tokens": Form(
        each_kind,
        _nothing,
        "return from set_kv_buffer() at once when loc is empty: an idle rank stores nothing",
    ),
    "padded tokens": Form(
        each_kind,
        _padded,
        "let padded tokens write to slot 0 like any other slot: it is allocated, and nobody reads it",
    ),
    "layer_id_override": Form(
        _from_layer_0_too,
        _overridden,
        "when layer_id_override is given, store there instead of in layer.layer_id; both count from start_layer",
    ),
    **{
        layout: Form(
            each_kind_and_form,
            partial(_laid_out, layout),
            "respect the strides of the input, or call .contiguous() first: keys and values come as slices of a fused"
            " projection, and loc may be a slice as well",
        )
        for layout in (*LAYOUTS, *LOCATIONS)
    },
    "two parts": Form(
        latent_pools,
        _two_parts,
        "in set_mla_kv_buffer() write the latent part first and the rotated part behind it",
    ),
}


@dataclass(frozen=True)
class FormOfStore(Pool):
    form: str = ""


def forms(subject: Subject, rng: random.Random) -> Iterator[FormOfStore]:
    for name, form in _FORMS.items():
        for pool in form.pools(subject, rng):
            yield FormOfStore(**vars(pool), form=name)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=forms,
    seconds=120,
    fix="store what is given, where `loc` says, and nothing else",
)
def stores_of_every_form_read_back(subject: Subject, case: FormOfStore) -> None:
    """A prefill over a large pool, more rows than a launch has, 80 layers, layers with a window, no token, padded
    tokens, another layer's number, any strides, and latent rows in two parts are stored, and nothing else is."""
    form = _FORMS[case.form]
    with mended_by(form.fix):
        pool = case.build(subject)
        for what in form.stores(pool):
            pool.verify(what)


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
    for layer_id in (pool.layers[0] - 1, pool.layers[-1] + 1):
        layer = layer_named(layer_id)
        calls: dict[str, Callable[[], Any]] = {
            "set_kv_buffer()": partial(pool.pool.set_kv_buffer, layer, loc, rows[0], rows[-1]),
            "get_key_buffer()": partial(pool.pool.get_key_buffer, layer_id),
        }
        for name, call in calls.items():
            try:
                call()
            except Exception as error:  # noqa: BLE001 - any clear refusal will do
                expect(
                    str(error), f"{name} for layer {layer_id} raised {type(error).__name__} without a word"
                )
            else:
                held = f"the pool holds layers {pool.layers[0]} to {pool.layers[-1]}"
                raise CheckFailed(f"{name} took layer {layer_id}; {held}")
    pool.verify("refusing layers of other stages")
