"""Levels 3 and 4: rows that come from host memory: layers are waited for, and requests come back whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.checks.allocators import PAGED, alloc_extend
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import edge_cases
from sglang_platform.conformance.fixtures.attention_judge import judge
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool, page_sizes
from sglang_platform.conformance.fixtures.pool_cases import Pool, each_kind
from sglang_platform.conformance.fixtures.pool_contents import layer_named
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, kv_pool
from sglang_platform.conformance.subject import Subject

_READERS = ("get_key_buffer", "get_value_buffer", "get_kv_buffer")


class LoadingLayers:
    """In the place of SGLang's counter of loaded layers: waiting for a layer brings it, by `arrive`."""

    consumer_index = 0

    def __init__(self, num_layers: int, arrive: Callable[[int], None]) -> None:
        self.num_layers, self._arrive = num_layers, arrive
        self.waited: list[int] = []

    def wait_until(self, threshold: int) -> None:
        first = not self.waited
        self.waited.append(threshold)
        if first:  # storing may read, and wait again
            self._arrive(threshold)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind,
    fix="in every method that answers a layer's rows first call self.layer_transfer_counter.wait_until(layer_id -"
    " self.start_layer), where the host has registered one",
)
def readers_wait_for_their_layer(subject: Subject, case: Pool) -> None:
    """With a counter registered, `get_key_buffer()` and the other readers of a layer, the indexer's too, first wait for
    it and for none after it, by its place in the pool, and what they answer is what has arrived then."""
    pool = case.build(subject)
    if not hasattr(pool.pool, "register_layer_transfer_counter"):
        raise NotApplicable("the pool has no register_layer_transfer_counter()")
    slots = pool.some_slots(4)
    for layer_id in pool.layers:
        place = layer_id - pool.layers[0]
        readers: dict[str, Callable[[], Any]] = {
            name: partial(getattr(pool.pool, name), layer_id) for name in _READERS if hasattr(pool.pool, name)
        }
        if hasattr(pool.pool, "get_mla_kv_buffer"):
            where = layer_named(layer_id), pool.locations(slots)
            readers["get_mla_kv_buffer"] = partial(pool.pool.get_mla_kv_buffer, *where)
        if pool.index_keys():
            readers |= _index_readers(pool, layer_id, case.page_size)
        for name, read in readers.items():
            arriving = pool.random_rows(len(slots))

            def arrive(threshold: int, layer_id: int = layer_id, rows: Any = arriving) -> None:
                pool.contents.store(layer_named(layer_id), slots, rows)

            counter = LoadingLayers(len(pool.layers), arrive)
            pool.pool.register_layer_transfer_counter(counter)
            answered = read()
            waited = list(counter.waited)
            pool.pool.register_layer_transfer_counter(None)
            what = f"{name}() of layer {layer_id}, place {place} in the pool"
            expect(bool(waited), f"{what}, does not wait for it")
            expect(
                max(waited) >= place,
                f"{what}, waits for place {max(waited)} only, and reads before its own has arrived",
            )
            expect(
                max(waited) == place,
                f"{what}, waits for place {max(waited)}; the pool has {len(pool.layers)} layers, and nothing is"
                " computed while those after its own arrive",
            )
            if name == "get_mla_kv_buffer":
                _arrived(answered, arriving[0], what)


def _index_readers(pool: PoisonedPool, layer_id: int, page_size: int) -> dict[str, Callable[[], Any]]:
    """Of the indexer's keys of one page."""
    pages = pool.locations([1], torch.int32)
    lengths = pool.locations([page_size], torch.int32)
    given = {
        "get_index_k_with_scale_buffer": (),
        "get_index_k_continuous": (page_size, pages),
        "get_index_k_scale_continuous": (page_size, pages),
        "get_index_k_scale_buffer": (lengths, pages[None], page_size, page_size),
    }
    return {
        name: partial(getattr(pool.pool, name), layer_id, *arguments)
        for name, arguments in given.items()
        if hasattr(pool.pool, name)
    }


def _arrived(answered: Any, rows: torch.Tensor, what: str) -> None:
    parts = [part.cpu().double().flatten(1) for part in answered if part is not None]
    expect(
        torch.equal(torch.cat(parts, dim=1), rows.cpu().double().flatten(1)),
        f"{what}, reads the rows before it waits",
        fix="wait first: what is read before may not have arrived",
    )


def loaded_prefixes(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """An extend behind a prefix, for each kind of pool that attention is declared for."""
    seen = set()
    for case in edge_cases(subject, rng):
        if case.kind not in seen:
            seen.add(case.kind)
            yield replace(case, mode="extend", requests=((2 * case.page_size + 3, 4), (0, 2), (5, 1)))


@check(
    level=Level.KERNELS,
    requires=[attention_backend(), kv_pool()],
    cases=loaded_prefixes,
    fix="ask the pool for the layer's keys and values in every forward() (get_key_buffer, get_value_buffer), which"
    " wait; or call layer_transfer_counter.wait_until() of the pool before reading its memory",
)
def attention_waits_for_loaded_layers(subject: Subject, case: AttentionCase) -> None:
    """A prefix that the hierarchical cache brings back only when its layer is waited for is attended to as it came."""
    step = AttentionStep(subject, case)
    if not hasattr(step.pool, "register_layer_transfer_counter"):
        raise NotApplicable("the pool has no register_layer_transfer_counter()")
    place = step.layer_id - step.contents.layers[0]

    def arrive(threshold: int) -> None:
        if threshold >= place:
            step.store_prefixes()

    step.store_other_prefixes()
    counter = LoadingLayers(len(step.contents.layers), arrive)
    step.pool.register_layer_transfer_counter(counter)
    out = step.got()
    expect(
        bool(counter.waited),
        f"forward() of layer {step.layer_id} reads its keys and values without waiting for the layer",
    )
    step.pool.register_layer_transfer_counter(None)
    judge(step, out)


@check(
    level=Level.MEMORY,
    requires=[kv_pool(), *PAGED],
    cases=each_kind,
    fix="copy every slot that is named, whether or not they fill whole pages, or leave the allocator's get_cpu_copy()"
    " and load_cpu_copy() to core, which asks the pool",
)
def retracted_requests_come_back(subject: Subject, case: Pool) -> None:
    """The host takes a request's rows to host memory through the allocator, and loads them there into the slots that it
    is lent when it comes back: all of them, of a last page that is not full too."""
    page = next((size for size in page_sizes(subject, case.kind) if size > 1), None)
    if page is None:
        raise NotApplicable(f"pools of {case.kind} have pages of one slot only")
    subject.stands_on(f"copies of the {case.kind} pool")
    pool = PoisonedPool(subject, case.kind, **{**case.keywords(subject), "page_size": page, "size": 8 * page})
    allocator = subject.allocator(8 * page, page, pool=pool.pool)
    pool.fill()
    length = 2 * page + page // 2
    away, back = (
        alloc_extend(subject, allocator, [0], [length], [-1]).cpu().long().tolist() for _ in range(2)
    )
    copy = allocator.get_cpu_copy(pool.locations(away))
    pool.image.move(back, away)
    for layer_id in pool.layers:  # the slots are given to others meanwhile
        pool.store(layer_id, away, pool.random_rows(length))
    allocator.load_cpu_copy(copy, pool.locations(back))
    pool.verify(f"a request of {length} tokens left slots {away[:4]}... and came back to {back[:4]}...")
