"""What is measured on a GPU: one file per group, each with `rows() -> Iterator[Row]`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["GROUPS", "Built", "Row", "filled", "rows"]

GROUPS = ("attention", "memory", "sparse", "ops")
"""Modules of this package, in order of value. Any other name is a module of its own, with `rows()` as these have."""


@dataclass
class Built:
    """A row's contenders, ready to run: name to a function without arguments. The first is ours.

    moved: bytes that must cross the memory bus; flops: floating-point operations; missing: peers that are not here,
    with the reason."""

    run: dict[str, Callable[[], Any]]
    moved: int
    flops: int = 0
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, build: Callable[[], Callable[[], Any]]) -> None:
        """A peer, or the reason why it cannot take part."""
        try:
            self.run[name] = build()
        except Exception as error:  # noqa: BLE001 - whatever stops a peer is written into the report
            self.missing[name] = (
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
            )


@dataclass(frozen=True)
class Row:
    """One row. `case`: its parameters, for the report. `needs`: bytes on the device. `bound`: "memory", "compute", or
    "host", which is timed by the host's clock. `checks`: the suite's families of the kernels that it launches; a row
    whose kernel is wrong on the device is not measured."""

    name: str
    case: Mapping[str, Any]
    bound: str
    needs: int
    build: Callable[[torch.device], Built]
    checks: tuple[str, ...] = ()


def rows(group: str, quick: bool) -> Iterator[Row]:
    """The rows of a group; with `quick` only the first of each name."""
    module = importlib.import_module(f"gpu_rows.{group}" if group in GROUPS else group)
    seen: set[str] = set()
    for row in module.rows():
        if not quick or row.name not in seen:
            yield row
        seen.add(row.name)


def filled(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Normal numbers on a GPU. On the CPU, where nothing is executed, memory that is never touched."""
    if device.type == "cpu":
        return torch.empty(shape, dtype=dtype)
    if dtype.itemsize == 1:
        return torch.randint(0, 120, shape, dtype=torch.uint8, device=device).view(dtype)
    tensor = torch.empty(shape, dtype=dtype, device=device)
    return tensor.normal_()
