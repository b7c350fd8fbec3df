"""Level 4: what attention is called with, and what it keeps from one call to the next."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import (
    decode,
    edge_cases,
    eight_bit_dtypes,
    extend,
    joined,
    one_of_each,
    steps,
)
from sglang_platform.conformance.fixtures.attention_judge import OWN_OUTPUT, judge, run_step
from sglang_platform.conformance.fixtures.attention_rows import SERVED
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.fp8 import FP8
from sglang_platform.conformance.requirement import attention_feature
from sglang_platform.conformance.subject import Subject

_property = partial(check, level=Level.KERNELS, requires=SERVED, cases=edge_cases)


@_property(
    cases=steps(
        decode(1000), decode(300, 700), decode(513, 37, 129), extend((400, 70)), extend((0, 130), (257, 3))
    ),
    fix="do not leave the order of a sum to chance: no atomics on the output, a fixed split of the keys",
)
def attention_is_deterministic(subject: Subject, case: AttentionCase) -> None:
    """The same step gives the same bits, three times."""
    step = AttentionStep(subject, case)
    first = step.got().cpu().clone()
    for again in (step.got().cpu(), step.got().cpu()):
        expect(
            torch.equal(first, again), f"the same step differs by {float((first - again).abs().max()):.3g}"
        )


@_property(
    fix="with save_kv_cache store the new tokens at out_cache_loc, of the layer given, and nothing else; without it"
    " store nothing, and read the new tokens from the cache, where they are: k and v may be None then"
)
def attention_stores_the_new_tokens_only(subject: Subject, case: AttentionCase) -> None:
    """`forward()` stores the new tokens' keys and values in their slots and changes no other byte; with
    `save_kv_cache=False` it changes none, and reads new tokens that a fused op or another layer has stored, whether
    they are handed over again or are None."""
    for save, given, somewhere in (
        (True, True, True),
        (False, True, False),  # at the padding slot, which would show it
        (False, True, True),
        (False, False, True),
    ):
        step = AttentionStep(subject, case, to_be_read=True)
        if not given and step.fixture.values_in_keys:
            continue  # models with latent attention always hand their row over
        if not save:
            step.store_new_tokens()
        if not somewhere:
            step.batch.out_cache_loc.zero_()
        before = step.held()
        q, k, v = step.handed()
        judge(step, step.forward(q, k, v, save=save) if given else step.forward(q, None, None, save=save))
        slots = set(step.new_slots()) if save else set()
        call = f"forward(save_kv_cache={save}), k and v {'given' if given else 'None'},"
        for name, then, now in zip(("keys", "values"), before, step.held(), strict=False):
            changed = set((then != now).any(axis=1).nonzero()[0].tolist())
            wrong, missing = sorted(changed - slots), sorted(slots - changed)
            expect(not wrong, f"{call} wrote {name} to slots {wrong[:6]}, which were not given")
            expect(not missing, f"forward() did not store the {name} of slots {missing[:6]}")


@_property(
    fix="answer at once where there are no queries, and ask for no length of a request before there is one"
)
def empty_and_idle_batches_are_answered(subject: Subject, case: AttentionCase) -> None:
    """A batch of no requests, and an idle step, which a rank of data-parallel attention takes part in without requests,
    are answered by no rows; padded rows of an idle step by as many; nothing is stored, and the batch after is right."""
    step = AttentionStep(subject, case, to_be_read=True)
    judge(step, step.got())
    before, width = step.held(), case.heads[0] * step.v_dim
    for mode, rows in ((case.mode, 0), ("idle", 0), ("idle", 3)):
        what = f"a batch of no requests ({mode}, {rows} rows)"
        shapes = (case.heads[0] * step.dim,), (case.heads[1], step.dim), (case.heads[1], step.v_dim)
        given = [torch.zeros(rows, *shape, dtype=step.dtype, device=subject.device) for shape in shapes]
        batch = _no_requests(subject, mode, rows)
        try:
            with torch.no_grad():
                if mode != "idle":  # the host makes no metadata for an idle step
                    step.backend.init_forward_metadata(batch)
                out = step.backend.forward(*given, step.layer, batch)
            subject.synchronize()
        except Exception as error:
            raise CheckFailed(f"{what} raises {type(error).__name__}: {error}") from error
        expect(
            list(out.shape) == [rows, width] and out.dtype == step.dtype,
            f"{what} is answered by {out.dtype} {list(out.shape)}; it must be {step.dtype} {[rows, width]}",
        )
        same = all(np.array_equal(then, now) for then, now in zip(before, step.held(), strict=True))
        expect(same, f"{what} wrote to the cache")
    judge(step, step.got())


def _no_requests(subject: Subject, mode: str, rows: int) -> object:
    none, padded = torch.zeros(0, dtype=torch.int64), torch.zeros(rows, dtype=torch.int64)
    fields: dict[str, Any] = {
        "batch_size": 0,
        "seq_lens_sum": 0,
        "out_cache_loc": padded,
        "positions": padded,
    }
    fields |= dict.fromkeys(("req_pool_indices", "seq_lens", "seq_lens_cpu"), none)
    if mode == "extend":
        fields |= dict.fromkeys(("extend_prefix_lens", "extend_seq_lens"), none.to(torch.int32))
        fields |= {"extend_prefix_lens_cpu": [], "extend_seq_lens_cpu": []}
    return subject.parts.forward_batch(mode, **fields)


def _moved(step: AttentionStep, kept: Set[int] = frozenset()) -> None:
    """Give every request other numbers, in other slots: each page but those `kept` is the next one now."""
    page = step.case.page_size
    moving = sorted({*range(1, step.contents.slots // page)} - kept)
    moved = dict(zip(moving, moving[1:] + moving[:1], strict=True)) | {at: at for at in kept}
    step.slots = [[moved[slot // page] * page + slot % page for slot in own] for own in step.slots]
    step.k, step.v = [-k for k in step.k], [-v for v in step.v]
    step.fill_table()
    step.store_prefixes()
    step.__dict__.pop("batch", None)


@_property(
    cases=joined(edge_cases, steps(decode(700), decode(300, 513), extend((600, 9)))),
    fix="read the whole row of req_to_token in every step: rows are given to other requests, requests are moved to"
    " other slots, and the prefix cache puts slots of its own in the place of those that a request had",
)
def request_table_is_read_in_every_step(subject: Subject, case: AttentionCase) -> None:
    """The request table and the cache are rewritten in place between steps: requests go on, by a token or a chunk, with
    all their tokens in other slots; those that were preempted come back in other rows and other slots, and other
    requests of the same lengths in the rows of those before, in slots of which all are others, all but those of the
    first page, or all but those of the last."""
    step = AttentionStep(subject, case)
    grown = [at for at, (cached, _) in enumerate(case.requests) if cached > 1]
    if grown:
        earlier = step.following(case.mode, grown, lengths=[case.requests[at][0] for at in grown])
        judge(earlier, earlier.got())
        _moved(step)
    judge(step, step.got())
    for staying, rows in ((None, 1), (None, 1), (None, 0), (0, 0), (None, 0), (-1, 0)):
        last = step.table.req_to_token.shape[0] - 1
        step.rows = [(row - 1 + rows) % last + 1 for row in step.rows]
        _moved(step, set() if staying is None else {own[staying] // case.page_size for own in step.slots})
        judge(step, step.got())


@_property(
    hosts=("none",),
    fix="look each slot of the request table up in the layer's slot_map() where that is a tensor, in decode and in"
    " extend, or say `_reads_slot_map = False`",
)
def rows_elsewhere_are_looked_up(subject: Subject, case: AttentionCase) -> None:
    """A backend that says that it reads a pool by its slot map finds the rows of a pool that keeps them in other pages,
    as the host's pool does for layers of a sliding window, in decode and in extend."""
    step = AttentionStep(subject, case)
    if not getattr(step.backend, "_reads_slot_map", False):
        raise NotApplicable("its attention reads rows at their slots: the host gives it no other pool")
    page, pages = case.page_size, step.contents.slots // case.page_size
    named = torch.cat((torch.zeros(1).long(), torch.randperm(pages - 1, generator=step.generator) + 1))
    lies_at = torch.empty_like(named)
    lies_at[named] = torch.arange(pages)
    slot_map = (lies_at[:, None] * page + torch.arange(page)).flatten().to(subject.device)
    store: Any = step.pool.set_kv_buffer

    def stored(layer: Any, loc: torch.Tensor, *rows: Any, **more: Any) -> Any:
        return store(layer, slot_map[loc.long()], *rows, **more)

    step.pool.slot_map, step.pool.set_kv_buffer = slot_map, stored
    step.slots = [[int(named[slot // page]) * page + slot % page for slot in own] for own in step.slots]
    step.fill_table()
    judge(step, step.got())


def stored_in_eight_bits(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    each = decode(300, 70, 3), decode(2100, 700, 40), extend((200, 6), (0, 90))
    for case in steps(*each)(subject, rng):
        for name in subject.declares.kv_dtypes:
            if getattr(torch, name) in FP8:  # latent rows are not scaled
                yield replace(case, kv_dtype=name, kv_scales=(0.25, 2.0) if case.kind == "mha" else None)


@_property(
    requires=[*SERVED, attention_feature("fp8_kv")],
    cases=stored_in_eight_bits,
    fix="read an 8-bit cache in its own format at every length, the rotated part of latent rows as well; take"
    " layer.k_scale and v_scale as tensors and as numbers, at each call",
)
def eight_bit_caches_attention(subject: Subject, case: AttentionCase) -> None:
    """8-bit caches of each declared format over some hundred tokens, of latent rows as well; and scales that are plain
    numbers, as SGLang writes those that it reads from a file (`models/llama.py`, load_kv_cache_scales, 0.5.23), and
    others after an update of the weights."""
    run_step(subject, case)
    if case.kv_scales is not None:
        step = AttentionStep(subject, case)
        step.layer.k_scale, step.layer.v_scale = case.kv_scales
        judge(step, step.got())
        step.case = replace(case, kv_scales=case.kv_scales[::-1])
        del step.layer, step.batch
        step.store_prefixes()
        judge(step, step.got())


_PAIRS: tuple[tuple[dict[str, object], dict[str, object]], ...] = (
    ({}, {"sliding_window": 12}),
    ({}, {"logit_cap": 2.0}),
    ({"logit_cap": 2.0}, {"logit_cap": 20.0}),
    ({}, {"sinks": True}),
    ({"sinks": True}, {"sinks": True}),
)
"""What two layers ask for; sinks are drawn for each."""

_DEEP = 129
"""As many layers as the deepest models that are served, and as tables of a fixed size forget."""


@dataclass(frozen=True)
class TwoLayers:
    """`other`: the fields of the case in which the second layer differs; its scale is twice as large. `layers`: of the
    pool, of which these are the last and the first."""

    first: AttentionCase
    other: Mapping[str, Any] = field(default_factory=dict)
    layers: int = 2


def two_layers(subject: Subject, rng: random.Random) -> Iterator[TwoLayers]:
    """Layers that differ in their scale only, in each declared feature, and in the scales of an 8-bit cache, each of
    them called first."""
    declared = subject.declares.attention_features
    for case, (mode, requests) in itertools.product(
        one_of_each(subject), (decode(40, 3), extend((21, 6), (0, 30)))
    ):
        step = replace(case, mode=mode, requests=requests)
        yield from (TwoLayers(step, layers=layers) for layers in (2, _DEEP))
        if case.kind != "mha":
            continue
        if {"gqa", "mha"} <= declared:  # layers of one model may have other numbers of query heads
            yield TwoLayers(replace(step, heads=(4, 2)), {"heads": (6, 2)})
            yield TwoLayers(replace(step, heads=(6, 2)), {"heads": (2, 2)})
        for one, other in itertools.chain.from_iterable((pair, pair[::-1]) for pair in _PAIRS):
            if {*one, *other} <= declared:
                yield TwoLayers(replace(step, features=one), {"features": other})
        for name in eight_bit_dtypes(subject):
            scaled = replace(step, kv_dtype=name, kv_scales=(0.25, 2.0))
            for scales, layers in (((0.5, 0.125), 2), ((0.5, 0.125), _DEEP), (None, 2)):
                yield TwoLayers(scaled, {"kv_scales": scales}, layers)


@_property(
    cases=two_layers,
    fix="take buffers, scale, window, cap, sinks and the scales of the cache from the layer at each call; keep nothing "
    "of the layer before",
)
def layers_differ(subject: Subject, case: TwoLayers) -> None:
    """Two layers of one model with caches of their own, and scales, windows, caps, sinks or cache scales that differ,
    the first and last of 129 layers too, are each right, one after the other for one batch and once more; the output
    of one stays while the other runs."""
    last = AttentionStep(subject, case.first, layers=case.layers)
    lowest = last.beside(last.layer_id - case.layers + 1, scale=2.0, **case.other)
    first, second = (lowest, last) if case.layers == _DEEP else (last, lowest)
    windowed = next((one for one in (first, second) if "sliding_window" in one.case.features), first)
    backend = windowed.backend
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    for at, layer in enumerate((first, second, first, second)):
        layer.__dict__["backend"] = backend
        out = layer.forward(*layer.handed(), prepare=at == 0)
        try:
            judge(layer, out)
        except CheckFailed as failed:
            raise CheckFailed(f"the {('first', 'second')[at % 2]} of two layers: {failed.what}") from None
        kept.append((out, out.cpu().clone()))
    expect(
        all(torch.equal(out.cpu(), was) for out, was in kept),
        "the output of a layer is overwritten while the next layer is computed",
        fix=OWN_OUTPUT,
    )
