"""Memory of the host beside a device's: how it is had, and how rows of a KV pool go there and back.

The hierarchical cache keeps keys and values that leave the device's pool in memory of the host. SGLang allocates it,
registers it and copies with CUDA's calls; for any other device it asks this class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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


class HostMemory:
    """Torch's own means. A device overrides what it has better: `allocate`, `register`, `copy`.

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
        """Make memory that somebody else allocated (shared with a storage, mapped from a file) reachable for the
        device's copies. False: nothing was done, and copies take the way of ordinary memory."""
        return False

    def unregister(self, tensor: torch.Tensor) -> None:
        """Undo `register`, before the memory is given back. Not called where `register` answered False."""

    def copy(self, pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Queue on the current stream a copy of each `(target, source)`, contiguous views of one shape, one on the
        device and one in host memory. Their memory lives until the stream has done it."""
        for target, source in pairs:
            _copies.add()
            target.copy_(source, non_blocking=True)

    # What the host asks for, made of `copy`.

    def copy_slots(
        self, sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], from_: Any, to: Any
    ) -> None:
        """Rows `from_[i]` of each source to rows `to[i]` of its target; both [n] int64. Tensors are [rows, ...]."""
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
        """One layer of pages in host memory, [pages, layers, page_size, ...] each, to rows [rows, ...] on the device.

        `from_` and `to` are slots [n], n a multiple of `page_size`: those of a page stand together, in order.
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
        """All layers' rows on the device to pages in host memory: the sources are the layers of the first target, then
        those of the second, ..."""
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
    """The fewest runs in which both go up by one, in the order given. `source` and `target`: [n] int64."""
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
