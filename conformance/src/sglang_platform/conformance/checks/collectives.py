"""Level 8: up to four ranks, in groups that are not the world, and every collective that the host calls."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.fixtures.collectives import GIVEN
from sglang_platform.conformance.fixtures.four_ranks import groups_of, ranks_of, told_by_ranks
from sglang_platform.conformance.fixtures.ranks import failed_first
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import world_size
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SEVERAL = (world_size(2),)
_SLOW = 30
_NOT_SLOW = 0.004

_WAYS = {"group": (0, "collectives_in_groups"), "communicator": (1, "communicator_in_groups")}
"""In the order in which a rank takes them, and the check that judges each."""


_FIXES = {  # where the group is the world
    "all_reduce": "all_reduce(x) returns the sum of x over all ranks, on every rank, in the shape and dtype of x",
    "all_gather": "all_gather(x, dim) returns the tensors of rank 0, 1, ... one after another along dim",
    "reduce_scatter": "reduce_scatter(x, dim) returns the part of the sum, along dim, that has this rank's number",
    "broadcast": "broadcast(x, src) gives every rank the tensor of rank src of the group",
}


@dataclass(frozen=True)
class Grouping:
    group: str


def groupings(subject: Subject, rng: random.Random) -> Iterator[Grouping]:
    for name in groups_of(ranks_of(subject)):
        yield Grouping(name)


_check = partial(check, level=Level.DISTRIBUTED, requires=_SEVERAL, seconds=400)


@_check(
    cases=groupings,
    founds="process group",
    fix="the process group behind get_torch_distributed_backend_str() must count ranks within its group, reduce by"
    " the operation that is asked for, send what a tensor holds when send() is called, and carry every collective that"
    " SGLang's groups call",
)
def collectives_in_groups(subject: Subject, case: Grouping) -> None:
    """Through torch.distributed, in groups of four, three and two ranks (as far as there are devices): all_reduce, also
    two that run at once, and of the largest and the smallest numbers, all_gather, all_gather_into_tensor,
    reduce_scatter_tensor, all_to_all_single, broadcast, send (also of what is written over at once) and recv, isend and
    irecv, of no rows to 16 MiB, of whole and real numbers of 8 to 64 bits."""
    _judge(subject, case, "group")


@_check(
    cases=groupings,
    founds="communicator",
    fix="pass group=self.device_group (on the CPU self.cpu_group) to every collective of torch, whose default is all"
    " ranks; count ranks within it (dist.get_rank(group)), name peers with dist.get_global_rank(),"
    " take inputs of any strides, leave them as they are, and give every answer memory of its own",
)
def communicator_in_groups(subject: Subject, case: Grouping) -> None:
    """Every collective of the contract that the communicator has, in groups of four, three and two ranks, of no rows
    to 16 MiB, in one to three dimensions and along each, as slices of larger tensors, with and without the arguments
    that have defaults, into outputs that are given, and in turns with another group's; inputs stay as they are, and
    what was sent may be written over."""
    _of_communicator(subject)
    _judge(subject, case, "communicator")


@_check(
    fix="do not wait, poll with pauses or make buffers in each call: a decode step has two collectives in every layer"
)
def communicator_is_quick(subject: Subject) -> None:
    """The quickest of ten calls of each collective of the communicator, with 120 numbers, takes no more than thirty
    times as long as the quickest all_reduce through torch.distributed between the same two ranks."""
    _of_communicator(subject)
    told = told_by_ranks(subject)
    times = [one["times"] for one in told if "times" in one]
    if not times:
        raise Blocked("a rank did not come so far: see distributed.communicator_in_groups")
    floor = max(one["group/all_reduce"] for one in times)
    for name in times[0]:
        # A rank may be done before the other has begun: the one that waited for it tells how long it took.
        seconds = max(one[name] for one in times)
        expect(
            seconds <= max(_SLOW * floor, _NOT_SLOW),
            f"{name.partition('/')[2]} of 120 numbers takes the communicator {seconds * 1e3:.3g} ms, and all_reduce"
            f" through torch.distributed {floor * 1e3:.3g} ms",
            case={"collective": name.partition("/")[2]},
        )


def _of_communicator(subject: Subject) -> None:
    subject.stands_on("communicator")
    subject.built = subject.platform.get_communicator_class()
    told = told_by_ranks(subject)
    if all(one.get("communicator", "unknown") is None for one in told):
        raise NotApplicable("get_communicator_class() answers None: the host's own is used")


def _judge(subject: Subject, case: Grouping, via: str) -> None:
    subject.stands_on({"group": "process group"}.get(via, via))
    told = told_by_ranks(subject)
    front = f"{via}/{case.group}/"
    for rank, one in enumerate(told):
        for key, problem in one.items():
            if key.startswith(front) and problem is not None:
                collective, tensor = key.removeprefix(front), problem["tensor"]
                of_all = via == "communicator" and len(groups_of(len(told))[case.group][0]) == len(told)
                plain = GIVEN[tensor].slices is None and problem["what"].startswith(("it gives", "at ["))
                raise CheckFailed(
                    f"{collective} of {problem['tensor']} on {_who(case.group, rank, told)}:"
                    f" {problem['what']}",
                    case={"group": case.group, "tensor": problem["tensor"], "rank": rank},
                    fix=_FIXES.get(collective.split()[0].rstrip(",")) if of_all and plain else None,
                )
    first = failed_first(told)
    if first is None:
        return
    one = told[first]
    if one["at"] and not one["at"].startswith(front):
        kinds = list(groups_of(len(told)))
        stopped, group = one["at"].split("/")[:2]
        if (_WAYS[stopped][0], kinds.index(group)) > (_WAYS[via][0], kinds.index(case.group)):
            return  # it was past these
        check_id = _WAYS[stopped][1]
        raise Blocked(f"a rank did not come so far: see distributed.{check_id}")
    _, _, collective, tensor = one["at"].split("/") if one["at"] else ("", "", "", "")
    where = f" in {collective}{f' of {tensor}' if tensor else ''}" if collective else ""
    raise CheckFailed(
        f"{_who(case.group, first, told)} did not come through{where}: {one['error']}\n{one['log']}",
        case={"group": case.group, "tensor": tensor, "rank": first} if tensor else None,
    )


def _who(group: str, rank: int, told: list[dict[str, Any]]) -> str:
    groups = groups_of(len(told)).get(group, [])
    members = next((list(members) for members in groups if rank in members), [])
    return f"rank {rank} of the world, group {members}"
