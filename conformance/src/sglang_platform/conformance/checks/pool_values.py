"""Level 3: values are cast and scaled as they are stored, and rows given in parts are whole."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool
from sglang_platform.conformance.fixtures.pool_buffers import PoolRows
from sglang_platform.conformance.fixtures.pool_cases import Pool, each_kind, each_kind_and_dtype
from sglang_platform.conformance.fixtures.pool_contents import layer_named
from sglang_platform.conformance.fixtures.row_layouts import layout_by_shape
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.fp8 import FP8
from sglang_platform.conformance.oracles.precision import format_of
from sglang_platform.conformance.oracles.stored_bytes import raw_bytes
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject


@dataclass(frozen=True)
class Cast:
    kind: str
    dtype: str
    given: str
    scale: float | None


def casts(subject: Subject, rng: random.Random) -> Iterator[Cast]:
    for kind in subject.declares.kv_kinds:
        scaled = subject.fixture(kind).takes_scales
        for dtype in subject.declares.kv_dtypes:
            for given in dict.fromkeys(("float32", "bfloat16", "float16", dtype)):
                if given == dtype:
                    if scaled:  # who made rows of the pool's type has scaled them
                        yield Cast(kind, dtype, given, 4.0)
                    continue
                # A power of two, so that the quotient is exact in every type.
                scales = [None, 0.5, 4.0] if scaled and getattr(torch, dtype) in FP8 else [None]
                for scale in scales:
                    yield Cast(kind, dtype, given, scale)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=casts,
    founds="casts of the {kind} pool",
    fix="divide keys by k_scale and values by v_scale (where given), round to nearest even, then store the bits",
)
def store_casts_and_scales(subject: Subject, case: Cast) -> None:
    """Values of another dtype are divided by their scale and rounded to nearest even; the scale is a number or a
    tensor, and the same tensors may hold other values in the next store."""
    pool = PoisonedPool(subject, case.kind, dtype=case.dtype, size=24, layer_num=1)
    for as_tensor in (False, True):
        slots = pool.some_slots(12)
        rows = pool.random_rows(12, getattr(torch, case.given))
        scale = case.scale
        if scale is not None and as_tensor:
            scale = torch.tensor(scale, dtype=torch.float32, device=subject.device)
        pool.store(pool.layers[0], slots, rows, scale)
        how = (
            ""
            if case.scale is None
            else f" with a scale of {case.scale}{' as a tensor' if as_tensor else ''}"
        )
        pool.verify(f"storing {case.given} values{how}")
        for row, other in zip(rows, pool.random_rows(12, getattr(torch, case.given)), strict=True):
            row.copy_(other)
        pool.store(pool.layers[0], pool.some_slots(12), rows, scale)
        pool.verify(f"storing other {case.given} values in the same tensors{how}")


_UNLIKE = ((4.0, 0.5), (0.5, None), (None, 4.0), (2.0, 8.0), (None, None), (4.0, 0.5))
"""Scales of keys and values, of stores after one another."""


def scaled_pools(subject: Subject, rng: random.Random) -> Iterator[Pool]:
    """Those of fp8 whose stores take scales."""
    for pool in each_kind_and_dtype(subject, rng):
        if subject.fixture(pool.kind).takes_scales and getattr(torch, pool.dtype) in FP8:
            yield pool


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=scaled_pools,
    fix="read k_scale and v_scale in each call, each by itself: None is no scale, whatever the other is, and the next"
    " store may bring others",
)
def scales_are_those_of_the_store(subject: Subject, case: Pool) -> None:
    """Keys and values are divided each by its own scale, one of which may be missing, and each store of a layer by the
    scales that come with it, numbers or tensors."""
    subject.stands_on(f"casts of the {case.kind} pool")
    pool = case.build(subject)
    for layer_id in pool.layers:
        for at, scales in enumerate(_UNLIKE):
            given = tuple(
                torch.tensor(one, device=subject.device) if at % 2 and one is not None else one
                for one in scales
            )
            pool.store(layer_id, pool.some_slots(3), pool.random_rows(3, torch.bfloat16), given)
            pool.verify(f"store {at + 1} of layer {layer_id}, with scales {scales} of keys and values")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind_and_dtype,
    hosts=["none"],
    fix="clamp to the largest value of the fp8 dtype before the cast, and write no NaN or infinity for a large number",
)
def fp8_store_saturates(subject: Subject, case: Pool) -> None:
    """Numbers beyond the range of fp8, infinite ones too, become its largest value of that sign, and small ones keep
    their subnormals."""
    dtype = getattr(torch, case.dtype)
    if dtype not in FP8:
        return
    pool = case.build(subject)
    largest = format_of(dtype).largest
    near = [largest, 1.01 * largest, 3 * largest, -2 * largest, 0.0, largest / 2, 0.002, -0.01]
    edges = torch.tensor([*near, torch.inf, -torch.inf])
    slots = pool.some_slots(4)
    rows = [
        edges.repeat(row.numel() // len(edges) + 1)[: row.numel()].reshape(row.shape)
        for row in pool.random_rows(4)
    ]
    pool.store(pool.layers[0], slots, [row.to(subject.device) for row in rows])
    pool.verify(f"storing numbers up to {3 * largest:g} as {case.dtype}")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind_and_dtype,
    hosts=["none"],
    fix="scale and cast into a new tensor: the model still uses its keys and values",
)
def store_leaves_its_input_alone(subject: Subject, case: Pool) -> None:
    """The tensors given to a store are not changed, whatever has to be cast or scaled."""
    pool = case.build(subject)
    given = "float16" if case.dtype == "float32" else "float32"
    rows = pool.random_rows(3, getattr(torch, given))
    loc = pool.locations(pool.some_slots(3))
    before = [rows[0].clone(), rows[-1].clone(), loc.clone()]
    scales = {"k_scale": 2.0, "v_scale": 2.0} if pool.fixture.takes_scales else {}
    pool.pool.set_kv_buffer(layer_named(pool.layers[0]), loc, rows[0], rows[-1], **scales)
    for name, now, then in zip(("keys", "values", "loc"), (rows[0], rows[-1], loc), before, strict=True):
        expect(torch.equal(now, then), f"set_kv_buffer() changed the {name} that it was given")


def latent_pools(subject: Subject, rng: random.Random) -> Iterator[Pool]:
    """A small pool of each kind, and one for a prefill."""
    for pool in each_kind(subject, rng):
        yield pool
        yield replace(
            pool, size=-(-1300 // pool.page_size) * pool.page_size, layers=2, start_layer=0
        )  # 0 is a layer, and not "none"


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=latent_pools,
    fix="in set_mla_kv_buffer() write the latent part first and the rotated part behind it; get_mla_kv_buffer() gives"
    " both back",
)
def mla_parts_make_one_row(subject: Subject, case: Pool) -> None:
    """A row given in two parts is the same row, read back in two parts, and its values are the latent part."""
    if not subject.fixture(case.kind).values_in_keys:
        return
    pool = case.build(subject)
    rank = case.row[0]
    tokens = min(1200, case.size - 3)
    slots, (rows,) = pool.some_slots(tokens), pool.random_rows(tokens)
    loc, layer = pool.locations(slots), layer_named(pool.layers[-1])
    if not hasattr(pool.pool, "set_mla_kv_buffer"):
        raise NotApplicable("the pool has no set_mla_kv_buffer()")
    name = f"rows of layer {layer.layer_id}"
    pool.pool.set_mla_kv_buffer(layer, loc, rows[..., :rank], rows[..., rank:])
    pool.image.store(name, slots, raw_bytes(rows))
    pool.verify(f"storing {tokens} rows in two parts")
    if "layer_id_override" in inspect.signature(pool.pool.set_mla_kv_buffer).parameters:
        first, (more,) = pool.layers[0], pool.random_rows(2)
        parts = more[..., :rank], more[..., rank:]
        pool.pool.set_mla_kv_buffer(layer, loc[:2], *parts, layer_id_override=first)
        pool.image.store(f"rows of layer {first}", slots[:2], raw_bytes(more))
        pool.verify(f"storing rows in two parts with layer {layer.layer_id} and layer_id_override={first}")
    latent, rotated = pool.pool.get_mla_kv_buffer(layer, loc)
    for part, got, wanted in (("latent", latent, rows[..., :rank]), ("rotated", rotated, rows[..., rank:])):
        if got is None and wanted.numel() == 0:
            continue
        expect(
            got is not None and got.reshape(tokens, -1).cpu().equal(wanted.reshape(tokens, -1).cpu()),
            f"get_mla_kv_buffer() gives another {part} part than was stored",
        )
    wider, _ = pool.pool.get_mla_kv_buffer(layer, loc, torch.float64)
    expect(
        wider.dtype == torch.float64
        and wider.reshape(tokens, -1).cpu().equal(rows[..., :rank].reshape(tokens, -1).cpu().double()),
        f"get_mla_kv_buffer() for float64 gives {wider.dtype}",
        fix="give the rows in dst_dtype where it is named, else in the pool's dtype",
    )
    if len(pool.rows()[name].tensors) > 1:
        return  # the latent part is a buffer of its own, which the image was compared with
    values = pool.pool.get_value_buffer(layer.layer_id)
    fix = "return the key buffer's first kv_lora_rank columns as values"
    wrong = f"get_value_buffer() is not the first {rank} numbers of each row"
    expect(values.shape[-1] == rank, wrong, fix=fix)
    layout = layout_by_shape(values.shape, (1, rank), case.page_size, pool.last_slot + 1)
    if layout is not None:
        held = PoolRows([(values, layout)]).numbers().cpu().double()[slots]
        expect(torch.equal(held, rows[..., :rank].cpu().double()), wrong, fix=fix)
