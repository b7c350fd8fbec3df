"""Level 3: the memory of a KV pool: its stated size, its addresses, moves within it, copies to the CPU and back."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch

from sglang_platform.conformance.check import NotApplicable, check, expect, mended_by
from sglang_platform.conformance.fixtures.brought_classes import memory_saver
from sglang_platform.conformance.fixtures.poisoned_pool import PoisonedPool
from sglang_platform.conformance.fixtures.pool_cases import (
    Pool,
    each_kind,
    each_kind_and_dtype,
    each_kind_and_form,
)
from sglang_platform.conformance.fixtures.pool_contents import PoolContents
from sglang_platform.conformance.fixtures.pool_memory import bytes_behind, misplaced, tensors_of
from sglang_platform.conformance.fixtures.tensor_memory import bytes_in_tensors
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import kv_pool
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.errors import PlatformError

__all__: list[str] = []

_GIB = 1 << 30


def sized_pools(subject: Subject, rng: random.Random) -> Iterator[Pool]:
    yield from each_kind_and_dtype(subject, rng)
    yield from each_kind_and_form(subject, rng)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=sized_pools,
    fix="return bytes: nbytes summed over all buffers (for mha a pair, keys and values); mem_usage is the same in GiB",
)
def stated_size_is_what_is_allocated(subject: Subject, case: Pool) -> None:
    """`get_kv_size_bytes()` is the number of bytes of all buffers, what is padded included, and `mem_usage` the same in
    GiB; `get_kv_buffer_shape()` is the shapes that `get_kv_buffer()` gives."""
    pool = case.build(subject)
    tensors = tensors_of(pool)
    stated = pool.pool.get_kv_size_bytes()
    least, most = bytes_behind(tensor for each in tensors.values() for tensor in each)
    wanted = str(least) if least == most else f"{least} to {most}"
    if pool.fixture.states_pair:
        expect(
            isinstance(stated, tuple) and len(stated) == len(tensors),
            f"get_kv_size_bytes() is {stated!r}; it must be a pair, of {' and '.join(tensors)}",
        )
        apart = [bytes_behind(each) for each in tensors.values()]
        if sum(few for few, _ in apart) == least and sum(many for _, many in apart) == most:
            for name, size, (few, many) in zip(tensors, stated, apart, strict=True):
                expect(
                    few <= size <= many,
                    f"get_kv_size_bytes() says {size} for the {name}; the buffers have {few} bytes",
                )
    else:
        expect(isinstance(stated, Integral), f"get_kv_size_bytes() is {stated!r}; it must be one number")
    total = sum(stated) if isinstance(stated, tuple) else stated
    expect(least <= total <= most, f"get_kv_size_bytes() is {stated}; the buffers have {wanted} bytes")
    in_gib = total / _GIB
    expect(
        abs(pool.pool.mem_usage - in_gib) <= 1e-6 * in_gib + 1e-12,
        f"mem_usage is {pool.pool.mem_usage!r}; the buffers have {total} bytes, which is {in_gib!r} GiB",
        fix="set mem_usage in GiB (bytes / 2**30), after all buffers are allocated",
    )
    shapes = [tuple(one.shape) for one in pool.pool.get_kv_buffer(pool.pool.start_layer)]
    told = [tuple(one) for one in pool.pool.get_kv_buffer_shape()]
    expect(
        told == shapes,
        f"get_kv_buffer_shape() is {told}; get_kv_buffer() gives {shapes}",
        fix="leave get_kv_buffer_shape() to the base class: SGLang sizes buffers and transfers by it",
    )


_LATE_S = 0.02
"""For what still writes when the pool has been handed out: on a busy machine it may have to wait for its turn."""


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind,
    fix="allocate every layer's keys and values apart from each other, and wait for the stream that fills them, or let"
    " torch's current stream wait for it, before the pool is handed out",
)
def buffers_do_not_overlap(subject: Subject, case: Pool) -> None:
    """No byte belongs to two buffers or to two pools, as a draft model's like its target's; and none is written late,
    when nothing was called for a while."""
    pool = case.build(subject)
    time.sleep(_LATE_S)
    pool.verify("the pool was handed out, and nothing was called on it")
    pool.fill()
    other = case.build(subject)
    other.fill()
    other.fill()  # the first time with the same numbers
    with mended_by(
        "allocate in each pool's constructor, and keep nothing by shape: a draft model's pool is like its target's"
    ):
        pool.verify("another pool of the same shape was made and filled")
        other.verify("a pool was filled, beside another of the same shape")


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=each_kind,
    fix="buffers are handed to attention before all slots are written: allocate them with zeros",
)
def fresh_buffers_are_zero(subject: Subject, case: Pool) -> None:
    """A new pool holds zeros, so that a padded or unwritten slot is never NaN."""
    layouts = None
    for _ in range(2):  # the memory of a pool full of NaN is the likeliest to be given to the next one
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
        where = rows.read().any(axis=1).nonzero()[0].tolist()
        expect(not where, f"slot {where[:1]} of the {name} of a new pool is not zero")


def listed_pools(subject: Subject, rng: random.Random) -> Iterator[Pool]:
    """Those, and one of each kind of a late stage: what is listed first is the first of its layers."""
    yield from each_kind_and_form(subject, rng)
    for pool in each_kind(subject, rng):
        yield replace(pool, start_layer=41)


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=listed_pools,
    fix="list (addresses, bytes, bytes per page) of buffers in which every page has bytes of its own, keys of all"
    " layers first; refuse with NotImplementedError where the layout has no such",
)
def buffer_infos_describe_the_buffers(subject: Subject, case: Pool) -> None:
    """Who moves the bytes that `get_contiguous_buf_infos()` names for a page moves all that its slots hold, and nothing
    of another page; where there is one buffer for each getter, they are listed in order, keys of all layers first. So
    does `get_state_buf_infos()` for the indexer's pages, keys and scales. What is named follows buffers that the memory
    saver has released and taken again."""
    pool = case.build(subject)
    try:
        infos = pool.pool.get_contiguous_buf_infos()
    except (RuntimeError, PlatformError) as refused:  # NotImplementedError is the first
        expect(str(refused), "get_contiguous_buf_infos() raises without a word")
        raise NotApplicable(f"get_contiguous_buf_infos() refuses transfer: {refused}") from refused
    _judge_buffers(pool, case, infos, "")
    if pool.index_keys() and hasattr(pool.pool, "get_state_buf_infos"):
        _judge_state_buffers(pool)
    try:
        saver = memory_saver(subject)
    except NotApplicable:  # released memory is SGLang's
        return
    tensors = [tensor for rows in pool.rows().values() for tensor in rows.tensors]
    saver.release("kv_cache", tensors)
    others = [torch.ones_like(tensor) for tensor in tensors]
    saver.resume("kv_cache")
    del others
    _judge_buffers(pool, case, pool.pool.get_contiguous_buf_infos(), " after a release and resume")


def _judge_buffers(pool: PoisonedPool, case: Pool, infos: Any, when: str) -> None:
    """`infos`: addresses, bytes, bytes per page. `when`: of the messages."""
    addresses, lengths, page_lengths = infos
    entries = list(zip(addresses, lengths, page_lengths, strict=False))
    for name, listed in {"addresses": addresses, "lengths": lengths, "page lengths": page_lengths}.items():
        expect(len(listed) == len(entries), f"{len(listed)} {name} for {len(entries)} buffers")
    whole = case.size // case.page_size + 1
    held = [
        (kind, rows)
        for kind in pool.row_shapes()
        for name, rows in pool.rows().items()
        if name.startswith(kind)
    ]
    parts = [tensor for _, rows in held for tensor in rows.tensors]
    for at, (start, length, page_length) in enumerate(entries):
        behind = [_room(tensor, start) for tensor in parts]
        room = max(behind)
        expect(
            page_length * whole <= length <= room,
            f"buffer {at}{when} is said to have {length} bytes, in {whole} pages of {page_length}; its memory has"
            f" {room}",
        )
    for at, (kind, rows) in enumerate(held):
        found = rows.addresses()[: whole * case.page_size]
        size = rows.tensors[0].element_size()
        if len(entries) == len(held):
            start, length, _ = entries[at]
            expect(
                start <= found.min() and found.max() < start + length,
                f"buffer {at}{when} starts at {start:#x}; the {kind} of that place in the list starts at"
                f" {found.min():#x}",
            )
            problem = misplaced(found, size, case.page_size, entries[at : at + 1])
        else:
            problem = misplaced(found, size, case.page_size, entries)
        expect(problem is None, f"the {kind}, buffer {at} of {len(held)}{when}: {problem}")


def _judge_state_buffers(pool: PoisonedPool) -> None:
    """Of a DSA pool these are the indexer's, one of each layer; a page is a row of bytes."""
    entries = list(zip(*pool.pool.get_state_buf_infos(), strict=True))
    expect(
        len(entries) == len(pool.layers),
        f"get_state_buf_infos() lists {len(entries)} buffers of the indexer, and there are {len(pool.layers)} layers",
    )
    for layer_id, entry in zip(pool.layers, entries, strict=True):
        pages = pool.pool.get_index_k_with_scale_buffer(layer_id)
        rows, bytes_of_a_page = pages.shape[0], pages[0].nbytes
        addresses = (
            pages.data_ptr()
            + np.arange(rows)[:, None] * pages.stride(0) * pages.element_size()
            + np.arange(bytes_of_a_page)
        )
        problem = misplaced(addresses, 1, 1, [entry])
        expect(
            problem is None,
            f"get_state_buf_infos() of the indexer's keys of layer {layer_id}: {problem}",
            fix="list the address, the bytes and the bytes per page of each layer's buffer, keys and scales",
        )


def _room(tensor: torch.Tensor, start: int) -> int:
    """Bytes of the memory that the tensor is a view of, from the address on; 0 where that is not in it."""
    storage = tensor.untyped_storage()
    return max(0, storage.data_ptr() + storage.nbytes() - start) if start >= storage.data_ptr() else 0


def plain_kinds(subject: Subject, rng: random.Random) -> Iterator[Pool]:
    """Of one row for each slot and buffer."""
    yield from (pool for pool in each_kind(subject, rng) if pool.kind in ("mha", "mla"))


@check(
    level=Level.MEMORY,
    requires=[kv_pool()],
    cases=plain_kinds,
    fix="count every buffer that the pool keeps in get_kv_size_bytes(): the host plans its memory by it",
)
def pools_keep_what_they_state(subject: Subject, case: Pool) -> None:
    """A pool takes no more memory in tensors than it states, but for a tenth and a mebibyte."""
    # Buffers of a power of two, which no allocator of a device rounds up.
    keywords = replace(case, size=32768 - case.page_size, layers=4).keywords(subject)
    subject.pool(case.kind, **keywords)  # what the first of a process makes once is not the pool's
    before = bytes_in_tensors(subject)
    pool = subject.pool(case.kind, **keywords)
    grown = bytes_in_tensors(subject) - before
    stated = pool.get_kv_size_bytes()
    total = sum(stated) if isinstance(stated, tuple) else stated
    expect(
        grown <= 1.1 * total + (1 << 20),
        f"a pool that states {total} bytes took {grown} bytes in tensors",
    )
