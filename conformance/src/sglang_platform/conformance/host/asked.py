"""The prompts that the checks of the host level ask, in tokens."""

from __future__ import annotations

from sglang_platform.conformance.host import reference

__all__ = [
    "CONCURRENT",
    "LENGTHS",
    "LONG",
    "NEW_TOKENS",
    "SHARED_PREFIX",
    "all_prompts",
    "long",
    "single",
    "together",
]

NEW_TOKENS = 24
LENGTHS = (1, 17, 64, 300)
LONG = 1500
CONCURRENT = 8
SHARED_PREFIX = 160


def single(tokens: int) -> list[int]:
    """One prompt of so many tokens."""
    return reference.prompts([tokens])[0]


def long() -> list[int]:
    """One that is computed in several chunks."""
    return reference.prompts([LONG], seed=4)[0]


def together() -> list[list[int]]:
    """Several of different lengths that share a prefix."""
    lengths = [SHARED_PREFIX + 5 * i for i in range(1, CONCURRENT + 1)]
    return reference.prompts(lengths, seed=1, shared_prefix=SHARED_PREFIX)


def all_prompts() -> list[list[int]]:
    """Every prompt whose answer is compared."""
    return [*map(single, LENGTHS), long(), *together()]
