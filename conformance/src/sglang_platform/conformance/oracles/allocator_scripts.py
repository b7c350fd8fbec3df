"""Series of calls of a paged allocator, by name. The history judges each of them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from sglang_platform.conformance.oracles.allocator_history import AllocatorHistory, Free

__all__ = ["OF_SIZE", "SCRIPTS"]


def _every_page(h: AllocatorHistory, numbers: random.Random) -> None:
    for end in ("free", "clear", "clear"):
        for _ in range(h.model.pages):
            h.alloc(1)
        h.alloc(1)
        if end == "free":
            h.free(*h.model.requests)
        else:
            h.clear()


def _extend(h: AllocatorHistory, numbers: random.Random, prefix: int, new: int) -> None:
    for more in filter(None, (prefix, new)):
        h.extend({1: more})


def _calls_that_do_not_fit(h: AllocatorHistory, numbers: random.Random) -> None:
    h.extend({1: h.page_size})
    free = h.free_pages
    h.alloc(free + 1)
    h.extend({2: free * h.page_size + 1, 1: 1})
    if not free:
        h.decode([1])
        return
    h.extend({2: (free - 1) * h.page_size + 1})
    h.extend({2: h.page_size - 1})  # no page is free, and none is needed


def _one_prefix(h: AllocatorHistory, numbers: random.Random, new: int) -> None:
    """A prompt that is sent several times."""
    h.extend({1: h.page_size})
    for other in (2, 3):
        h.model.fork(1, other, 1)
    h.extend(dict.fromkeys((1, 2, 3), new))
    h.decode([1, 2, 3])
    h.free(2)
    h.free(1, 3)


def _free_group(h: AllocatorHistory, numbers: random.Random) -> None:
    name = h.alloc(h.model.pages)
    h.begin_group()
    h.free(*filter(None, [name]))
    h.alloc(1)
    h.end_group()
    h.begin_group()
    h.clear()
    h.free(*filter(None, [h.alloc(1)]))


def _free_by_number(h: AllocatorHistory, numbers: random.Random) -> None:
    for grouped in (False, False, True, True):  # numbers of 64 bits, and of 32
        name = h.alloc(h.model.pages)
        if grouped:
            h.begin_group()
        h.free(*filter(None, [name]), how="numbers")
        if grouped:
            h.end_group()


def _frees_in_no_order(h: AllocatorHistory, numbers: random.Random, together: int = 1) -> None:
    for part in _dealt(h, h.model.pages // together, numbers):
        h.free(part)
    h.alloc(h.model.pages)


def _group(h: AllocatorHistory, numbers: random.Random, frees: tuple[Free, ...], times: int = 1) -> None:
    """Its pages are free at its end, none before; one that a flush has dropped ends as one of nothing."""
    frees *= times
    for flushed in (False, True):
        h.extend({1 + at: h.page_size for at in range(h.model.pages)})
        h.begin_group()
        for name, how in zip(range(1, h.model.pages), frees, strict=False):
            h.free(name, how=how)
        if flushed:
            h.clear()
            h.alloc(1)
        h.end_group()
        h.alloc(h.free_pages)
        h.clear()


def _resize(h: AllocatorHistory, numbers: random.Random, slots: int) -> None:
    for size in (slots, h.model.pages * h.page_size) if h.has("resize") else ():
        h.alloc(1)
        h.resize(size)
        h.alloc(h.model.pages)
        h.alloc(1)
        h.free(1)


def _crowd(h: AllocatorHistory, numbers: random.Random, requests: int) -> None:
    """A batch of which the last find no page is refused as a whole; one that fits exactly is served."""
    every = range(1, requests + 1)
    new = range(requests + 1, 2 * requests + 1)
    h.extend(dict.fromkeys(every, h.page_size))
    h.extend(dict.fromkeys(every, 1))
    h.extend(dict.fromkeys(new, 1))
    h.decode(every)
    h.alloc(requests)
    h.extend(dict.fromkeys(new, 1), counted=True)
    h.extend(dict.fromkeys(new[1:], 1), counted=True)
    h.free(*new[1:])
    h.decode(every[1:])


def _served(h: AllocatorHistory, numbers: random.Random, requests: int) -> None:
    """Requests grow by tens of tokens, decode, and are freed; one grows by tens of thousands."""
    budget, names = h.model.available() // requests, range(1, requests + 1)
    for most, counted in ((3, False), (0, False), (4, False), (4, True), (0, False), (8, True)):
        if most:
            h.extend({name: numbers.randint(1, budget // most) for name in names}, counted=counted)
        else:
            h.decode(names)
    h.free(*names[::2])
    for more in (2_000, 70_003, 9_000):
        h.extend({1: more})
    h.alloc(h.free_pages + 1)
    h.extend({2: -h.model.tokens(2) % h.page_size, 3: h.model.available() + 1})


def _thousands_of_pages(h: AllocatorHistory, numbers: random.Random) -> None:
    """What a call frees comes back, by slots or by numbers, at once or in a group."""
    for at, part in enumerate(_dealt(h, 6, numbers)):
        if at // 2 % 2:
            h.begin_group()
        h.free(part, how="numbers" if at % 2 else "slots")
        if at // 2 % 2:
            h.end_group()
    h.alloc(h.model.pages - 40)
    h.extend({2 + at: h.page_size for at in range(40)})


def _past_32_bit_floats(h: AllocatorHistory, numbers: random.Random) -> None:
    """Requests at the end of more than 2**24 slots, while no page is free."""
    h.alloc(h.model.pages)
    h.model.dealt(1, np.arange(h.model.pages - 1023, h.model.pages + 1), 2)
    h.free(2, how="numbers")
    names = range(2, 1026)
    h.extend(dict.fromkeys(names, 1))
    h.decode(names)
    h.extend(dict.fromkeys(names, 2))


def _dealt(h: AllocatorHistory, parts: int, numbers: random.Random) -> list[int]:
    """Requests that have all pages, each as many, in no order."""
    h.alloc(h.model.pages)
    order = np.random.default_rng(numbers.randrange(1 << 30)).permutation(np.arange(1, h.model.pages + 1))
    for name, pages in enumerate(np.array_split(order, parts)):
        h.model.dealt(1, pages, 2 + name)
    return list(range(2, 2 + parts))


SCRIPTS: dict[str, Callable[..., None]] = {
    function.__name__.lstrip("_"): function
    for function in (
        *(_every_page, _extend, _calls_that_do_not_fit, _one_prefix, _free_group, _free_by_number),
        *(_frees_in_no_order, _group, _resize, _crowd, _served, _thousands_of_pages, _past_32_bit_floats),
    )
}

OF_SIZE = {
    "thousands_of_pages": "number pages in more than 16 bits, and free all that a call names, however many those are"
    " and in whatever type their slots come",
    "past_32_bit_floats": "keep slots in 64-bit integers all the way: 32-bit floats are exact to 2**24 only",
}
"""What to do where small pools are right."""
