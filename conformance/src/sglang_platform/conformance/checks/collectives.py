"""Level 8: up to four ranks, in groups that are not the world, and every collective that the host calls."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check
from sglang_platform.conformance.fixtures.four_ranks import groups_of, ranks_of, told_by_ranks
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import world_size
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SEVERAL = (world_size(2),)


@dataclass(frozen=True)
class Grouping:
    group: str


def groupings(subject: Subject, rng: random.Random) -> Iterator[Grouping]:
    for name in groups_of(ranks_of(subject)):
        yield Grouping(name)


@check(
    level=Level.DISTRIBUTED,
    requires=_SEVERAL,
    cases=groupings,
    fix="the process group behind get_torch_distributed_backend_str() must count ranks within its group, and carry"
    " every collective that SGLang's groups call",
    seconds=400,
)
def collectives_in_groups(subject: Subject, case: Grouping) -> None:
    """Through torch.distributed, in groups of four, three and two ranks (as far as there are devices): all_reduce, also
    two that run at once, all_gather, all_gather_into_tensor, reduce_scatter_tensor, all_to_all_single, broadcast, send
    and recv, isend and irecv, of no rows to 1 MiB."""
    _judge(subject, case, "group")


@check(
    level=Level.DISTRIBUTED,
    requires=_SEVERAL,
    cases=groupings,
    fix="count ranks within cpu_group and device_group (dist.get_rank(group)), name peers with dist.get_global_rank(),"
    " take inputs of any strides, and give every answer memory of its own",
    seconds=400,
)
def communicator_in_groups(subject: Subject, case: Grouping) -> None:
    """Every collective of the contract that the communicator has, in groups of four, three and two ranks, of no rows
    to 1 MiB, in one to three dimensions, as slices of larger tensors, into outputs that are given."""
    _judge(subject, case, "communicator")


def _judge(subject: Subject, case: Grouping, via: str) -> None:
    told = told_by_ranks(subject)
    if via == "communicator" and all(one.get("communicator", "unknown") is None for one in told):
        raise NotApplicable("get_communicator_class() answers None: the host's own is used")
    front = f"{via}/{case.group}/"
    for rank, one in enumerate(told):
        for key, problem in one.items():
            if key.startswith(front) and problem is not None:
                raise CheckFailed(
                    f"{key.removeprefix(front)} of {problem['tensor']} on rank {rank} of the world, group"
                    f" {_members(case.group, rank, len(told))}: {problem['what']}",
                    case={"group": case.group, "tensor": problem["tensor"], "rank": rank},
                )
    for rank, one in enumerate(told):
        reached = any(key.startswith(front) for key in one)
        if "error" in one and (not reached or _stopped_in(one) == front):
            raise CheckFailed(
                f"rank {rank} of {len(told)} did not come through: {one['error']}\n{one['log']}"
            )


def _stopped_in(one: dict[str, object]) -> str:
    """The front of the last collective that a rank told of."""
    last = [key for key in one if key.count("/") == 2]
    return last[-1].rpartition("/")[0] + "/" if last else ""


def _members(group: str, rank: int, ranks: int) -> list[int]:
    return next((list(members) for members in groups_of(ranks)[group] if rank in members), [])
