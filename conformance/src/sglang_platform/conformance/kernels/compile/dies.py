"""How often the rows of a cache are read from memory, where a device has several dies with an L2 each.

Programs are given to the dies in turn. A die holds `slots` of them at once; those that read the same rows walk over
them together, so each die reads the rows of a group once for all of its members that it holds at the same time, and
again for those that come later. Programs without work end at once. What lies between the L2s and the memory (on MI300X
a cache of 256 MB) is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["LAUNCHES", "SharingLaunch", "in_turn", "reads", "shared_on_one_die", "table"]

Order = Callable[["SharingLaunch", int], tuple[int, int]]


@dataclass(frozen=True)
class SharingLaunch:
    """What is launched on a device of `dies` dies with `slots` programs each at once. groups: of `members` programs
    that read the same rows; the first `live` have work. Bytes are those of all groups' rows, read once. adjacent: in
    the order of the grid the members of a group follow each other; otherwise its first members come first."""

    name: str
    groups: int
    members: int
    live: int
    read: int
    slots: int
    adjacent: bool = False
    dies: int = 8


_MLA = 64 * 8192 * 1152
_GQA = 30_000 * 8 * 2 * 128 * 2

_100 = "extend, 100 new tokens behind 30,000, 32 heads over 8, 10 parts"
_CHUNK = "extend, {} new tokens behind 30,000, 32 heads over 8"

LAUNCHES = (
    SharingLaunch(
        "decode, MLA with 128 heads, 64 requests of 8192, parts", 127, 8, live=64, read=_MLA, slots=76
    ),
    SharingLaunch("the same, one part each", 64, 8, live=64, read=_MLA, slots=76),
    SharingLaunch("the same of 61 requests", 61, 8, live=61, read=_MLA * 61 // 64, slots=76),
    SharingLaunch(_100, 80, 7, live=80, read=_GQA, slots=38, adjacent=True),
    SharingLaunch(_CHUNK.format("2,048"), 8, 128, live=8, read=_GQA, slots=38, adjacent=True),
    SharingLaunch(_CHUNK.format("8,192"), 8, 512, live=8, read=_GQA, slots=38, adjacent=True),
)
"""As the wrappers of the ROCm package launch on an MI300X."""


def in_turn(launch: SharingLaunch, at: int) -> tuple[int, int]:
    """The group and the member that program `at` is, in the order of the grid."""
    if launch.adjacent:
        return at // launch.members, at % launch.members
    return at % launch.groups, at // launch.groups


def shared_on_one_die(launch: SharingLaunch, at: int) -> tuple[int, int]:
    """The same in the order of `core.portable.triton.kernels.die_order`."""
    block, within = divmod(at, launch.dies * launch.members)
    first = block * launch.dies
    beside = min(launch.groups - first, launch.dies)
    return first + within % beside, within // beside


def reads(launch: SharingLaunch, order: Order) -> float:
    """How often a row is read from memory, on the average."""
    queues: list[list[int]] = [[] for _ in range(launch.dies)]
    for at in range(launch.groups * launch.members):
        group, _ = order(launch, at)
        if group < launch.live:
            queues[at % launch.dies].append(group)
    return sum(len(set(held)) for queue in queues for held in _rounds(queue, launch.slots)) / launch.live


def _rounds(queue: Sequence[int], slots: int) -> Iterator[Sequence[int]]:
    for at in range(0, len(queue), slots):
        yield queue[at : at + slots]


def table() -> list[str]:
    """Both orders side by side, as Markdown."""
    lines = [
        "| launch | programs that share rows | reads, in turn | GiB | reads, on one die | GiB |",
        "|---|---|---|---|---|---|",
    ]
    for launch in LAUNCHES:
        cells = [launch.name, str(launch.members)]
        for order in (in_turn, shared_on_one_die):
            times = reads(launch, order)
            cells += [f"{times:.2f}", f"{times * launch.read / 2**30:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines
