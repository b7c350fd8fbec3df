"""Series of calls of a paged allocator, by name. The history judges each of them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from sglang_platform.conformance.oracles.allocator_history import AllocatorHistory

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
    h.free(*filter(None, [h.alloc(h.model.pages)]))
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
    for function in (*(_every_page, _crowd, _served, _thousands_of_pages, _past_32_bit_floats),)
}

OF_SIZE = {
    "thousands_of_pages": "number pages in more than 16 bits, and free all that a call names, however many those are"
    " and in whatever type their slots come",
    "past_32_bit_floats": "keep slots in 64-bit integers all the way: 32-bit floats are exact to 2**24 only",
}
"""What to do where small pools are right."""
