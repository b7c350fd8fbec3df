"""A case of a kernel check: run the kernel once on random inputs and hold every output against float64.

The inputs of a case are made from its seed alone, so that a failing one can be run again by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

__all__ = ["Case", "ComparedOutput", "KernelCheck", "bit_equal", "compare"]


@dataclass(frozen=True)
class ComparedOutput:
    """One output of a kernel beside what it should be.

    `error` is the largest |got - expected| / bound, at most 1 in a correct kernel; infinite where a value is not
    finite and should be. `words` tells the worst element.
    """

    what: str
    error: float
    words: str

    @property
    def good(self) -> bool:
        return self.error <= 1.0


@dataclass(frozen=True)
class Case:
    """`run()` answers one ComparedOutput per output, and raises what the kernel raises."""

    name: str
    run: Callable[[], list[ComparedOutput]]


class KernelCheck(Protocol):
    """`entry`: the launch wrapper, or a mutant of it."""

    def __call__(self, entry: Callable[..., Any], device: torch.device, seed: int) -> Iterator[Case]: ...


def compare(
    what: str, got: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor | float
) -> ComparedOutput:
    """`expected` and `bound` in float64, the shape of `got`. NaN is expected where `expected` is NaN."""
    if got.shape != expected.shape:
        return ComparedOutput(
            what, float("inf"), f"shape {tuple(got.shape)} instead of {tuple(expected.shape)}"
        )
    if got.numel() == 0:
        return ComparedOutput(what, 0.0, "empty")
    value = got.detach().cpu().double()
    limit = torch.as_tensor(bound, dtype=torch.float64).expand_as(expected)
    same = (value == expected) | (value.isnan() & expected.isnan())
    ratio = torch.where(same, 0.0, (value - expected).abs() / limit)
    ratio = torch.where(ratio.isnan(), float("inf"), ratio)
    at = int(ratio.reshape(-1).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), ratio.shape))
    words = f"{value[index].item():.6g} at {index}, expected {expected[index].item():.6g} +- {limit[index].item():.2g}"
    return ComparedOutput(what, float(ratio.reshape(-1)[at]), words)


def bit_equal(what: str, got: torch.Tensor, expected: torch.Tensor) -> ComparedOutput:
    """For copies and integers: every byte the same."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return ComparedOutput(
            what,
            float("inf"),
            f"{got.dtype} {tuple(got.shape)}, not {expected.dtype} {tuple(expected.shape)}",
        )
    if got.numel() == 0:
        return ComparedOutput(what, 0.0, "empty")
    a = got.detach().cpu().contiguous().view(torch.uint8)
    b = expected.detach().cpu().contiguous().view(torch.uint8)
    different = int((a != b).sum())
    return ComparedOutput(
        what, 0.0 if different == 0 else float("inf"), f"{different} of {a.numel()} bytes differ"
    )
