"""Host memory for a device: allocation, registration, and copies of KV pool rows in both directions.

The hierarchical cache keeps keys and values that are evicted from the device's pool in host memory. SGLang allocates,
registers and copies it with CUDA calls; other devices use this class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sglang_platform.core.contract.parts import Part
from sglang_platform.core.counters import counter

if TYPE_CHECKING:
    import torch

__all__ = ["HostMemory", "Run", "runs"]

_copies = counter("host_memory.copies")


class Run(NamedTuple):
    """Rows `source` to `source + length` go to `target` to `target + length`."""

    source: int
    target: int
    length: int


class HostMemory(Part):
    """Host memory through torch alone. A device overrides `allocate`, `register` or `copy` if it has a better way.

    Built once per worker with `pins`, whether the device copies from page-locked memory
    (`is_pin_memory_available()`).
    """

    def __init__(self, pins: bool) -> None:
        self.pins = pins

    def allocate(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A tensor in host memory with any content, page-locked where the device copies from such memory."""
        import torch

        return torch.empty(tuple(shape), dtype=dtype, pin_memory=self.pins)

    def register(self, tensor: torch.Tensor) -> bool:
        """Register memory allocated elsewhere (shared with a storage, mapped from a file) for the device's copies.
        False: nothing was done, and copies treat it as pageable memory."""
        return False

    def unregister(self, tensor: torch.Tensor) -> None:
        """Undo `register`, before the memory is freed. Not called if `register` returned False."""

    def copy(self, pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Queue on the current stream a copy of each `(target, source)`, contiguous views of one shape, one on the
        device and one in host memory. Both stay allocated until the stream has finished the copy."""
        for target, source in pairs:
            _copies.add()
            target.copy_(source, non_blocking=True)

    # Called by the host, built on `copy`.

    def copy_slots(
        self, sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], from_: Any, to: Any
    ) -> None:
        """Copy rows `from_[i]` of each source to rows `to[i]` of its target; both [n] int64. Tensors are [rows,
        ...]."""
        found = list(runs(from_, to))
        self.copy(
            (target[run.target : run.target + run.length], source[run.source : run.source + run.length])
            for source, target in zip(sources, targets, strict=True)
            for run in found
        )

    def copy_pages_in(
        self,
        sources: Sequence[torch.Tensor],
        targets: Sequence[torch.Tensor],
        from_: Any,
        to: Any,
        layer: int,
        page_size: int,
    ) -> None:
        """Copy one layer of pages in host memory, [pages, layers, page_size, ...] each, to rows [rows, ...] on the
        device.

        `from_` and `to` are slots [n], n a multiple of `page_size`; the slots of a page are adjacent and in order.
        """
        self.copy(
            (target[slot : slot + page_size], source[page, layer].view(target[slot : slot + page_size].shape))
            for source, target in zip(sources, targets, strict=True)
            for page, slot in _pages(from_, to, page_size)
        )

    def copy_pages_out(
        self,
        sources: Sequence[torch.Tensor],
        targets: Sequence[torch.Tensor],
        from_: Any,
        to: Any,
        page_size: int,
    ) -> None:
        """Copy the rows of all layers on the device to pages in host memory: the sources are the layers of the first
        target, then those of the second, ..."""
        layers = len(sources) // len(targets)
        self.copy(
            (
                targets[at // layers][page, at % layers].view(source[slot : slot + page_size].shape),
                source[slot : slot + page_size],
            )
            for at, source in enumerate(sources)
            for page, slot in _pages(to, from_, page_size)
        )


def runs(source: torch.Tensor, target: torch.Tensor) -> Iterator[Run]:
    """The fewest runs in which both indices ascend by one, in the given order. `source` and `target`: [n] int64."""
    import torch

    if source.numel() != target.numel():
        raise ValueError(f"{source.numel()} slots cannot be copied to {target.numel()}")
    if not source.numel():
        return
    source, target = source.cpu(), target.cpu()
    breaks = (source.diff() != 1) | (target.diff() != 1)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), breaks.nonzero().flatten() + 1])
    ends = torch.cat([starts[1:], torch.tensor([source.numel()])])
    firsts = source[starts].tolist(), target[starts].tolist(), (ends - starts).tolist()
    yield from map(Run._make, zip(*firsts, strict=True))


def _pages(host: torch.Tensor, device: torch.Tensor, page_size: int) -> list[tuple[int, int]]:
    """Page in host memory and first slot on the device, per page."""
    if host.numel() != device.numel() or host.numel() % page_size:
        raise ValueError(
            f"{host.numel()} and {device.numel()} slots are not the same whole pages of {page_size}"
        )
    firsts = host[::page_size].tolist(), device[::page_size].tolist()
    return [(slot // page_size, first) for slot, first in zip(*firsts, strict=True)]
