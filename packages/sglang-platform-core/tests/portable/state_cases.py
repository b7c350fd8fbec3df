"""Random steps of a recurrent layer for the tests of its kernels: requests, their slots, padding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st

__all__ = ["Step", "steps"]


@dataclass
class Step:
    lengths: list[int]
    """Tokens of each request."""

    slots: list[int]
    """-1 for padding."""

    one_token_each: bool
    pool: int
    seed: int

    @property
    def starts(self) -> torch.Tensor | None:
        if self.one_token_each:
            return None
        return torch.tensor([0, *torch.tensor(self.lengths).cumsum(0).tolist()], dtype=torch.int32)

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    def requests(self) -> list[tuple[range, int]]:
        found, begin = [], 0
        for length, slot in zip(self.lengths, self.slots, strict=True):
            found.append((range(begin, begin + length), slot))
            begin += length
        return found

    def untouched(self) -> list[int]:
        """Slots of no request in the step."""
        return [slot for slot in range(self.pool) if slot not in self.slots]


@st.composite
def steps(draw: st.DrawFn) -> Step:
    one = draw(st.booleans())
    requests = draw(st.integers(1, 5))
    lengths = [1] * requests if one else draw(st.lists(_LENGTHS, min_size=requests, max_size=requests))
    pool = draw(st.integers(requests, 8))
    slots = draw(st.permutations(range(pool)))[:requests]
    padded = draw(st.lists(st.booleans(), min_size=requests, max_size=requests))
    return Step(
        lengths,
        [-1 if pad else slot for slot, pad in zip(slots, padded, strict=True)],
        one,
        pool,
        draw(st.integers(0, 2**31)),
    )


# Around one and two chunks of 64 tokens as well as short ones.
_LENGTHS = st.one_of(st.integers(0, 9), st.integers(60, 70), st.integers(126, 131))
