"""Level 8: up to four ranks, in groups that are not the world, and every collective that the host calls."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, Row, check, expect
from sglang_platform.conformance.fixtures.collectives import GIVEN
from sglang_platform.conformance.fixtures.four_ranks import (
    ENDURING,
    KEPT_EXCHANGES,
    RANKS,
    devices_of,
    groups_of,
    told_by_ranks,
)
from sglang_platform.conformance.fixtures.ranks import failed_first
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import world_size
from sglang_platform.conformance.subject import Subject

_SEVERAL = (world_size(2),)
_SLOW = 30
_NOT_SLOW = 0.004
_LEAST = {"bytes in tensors": 1, "objects of Python": KEPT_EXCHANGES * 3 // 4}
"""In a turn: less is not one of each exchange."""

_WAYS = {"group": (0, "collectives_in_groups"), "communicator": (1, "communicator_in_groups")}
"""In the order in which a rank takes them, and the check that judges each."""


_WITHIN = (
    "pass group=self.device_group to every collective, and name peers with dist.get_global_rank() (on the CPU"
    " self.cpu_group; dist.get_rank(group) counts within it): torch's default is all ranks"
)
_FIXES = {
    "all_reduce": "answer the sum over ranks, in place or as a new tensor",
    "all_gather": "concatenate the ranks' tensors along `dim`, in rank order",
    "all_gather_into_tensor": "concatenate the ranks' tensors along dimension 0, in rank order, into `output`",
    "reduce_scatter": "answer the part of the sum, along `dim`, that has this rank's number",
    "reduce_scatter_tensor": "write this rank's share of dimension 0 of the sum over ranks into `output`",
    "gather": "concatenate along `dim` on rank `dst` of the group, and answer None on the others",
    "broadcast": "write the tensor of rank `src` of the group into the one that is given, and return that",
    "all_to_all_single": "send part i of dimension 0 of `input_` to rank i, all parts alike in size",
    "all_gatherv": "concatenate along dimension 0, with `sizes[r]` rows from rank r, into `output` where it is given",
    "reduce_scatterv": "answer the rows of the sum over ranks that are this rank's, `sizes[r]` for rank r",
    "send": "send one tensor to rank `dst` of the group, by default to the next, in a circle",
    "recv": "receive a new tensor of this size and type from rank `src` of the group, by default from the one before",
}
"""What the contract says of each, `core.distributed.communicator`."""
_FIXES_BY_SIGHT = {
    "its answer changes": "give every answer memory of its own, or answer in the tensor that is given: layers keep the"
    " answer of one call over the next",
    "it changes its input": "leave the input as it is: compute in a copy, or in the output",
    "it works in place": "write the result into the tensor that is given, and return that",
    "it answers on": "answer on the device of the tensors that are given",
    "it raised": "take every tensor that the contract allows: no rows, no dimensions, booleans, any strides",
}
"""By how what was seen begins: whatever the collective is, and whichever the group."""
_ENDED = "correct what ends the process there: its last lines stand below"
_MEET = (
    "answer from get_torch_distributed_backend_str() a backend that torch.distributed has for this device, and from"
    " get_device(rank) the rank's own device"
)
_LATE = ("timeout", "timed out", "did not come back")
"""Of errors of ranks that wait for others: the group is not the one that was meant."""


def groupings(subject: Subject, rng: random.Random) -> Iterator[Row]:
    yield from map(Row, groups_of(devices_of(subject)))


_check = partial(check, level=Level.DISTRIBUTED, requires=_SEVERAL, seconds=400)


@_check(
    cases=groupings,
    founds="process group",
    fix="the process group behind get_torch_distributed_backend_str() must count ranks within its group, reduce by"
    " the operation that is asked for, send what a tensor holds when send() is called, and carry every collective that"
    " SGLang's groups call",
)
def collectives_in_groups(subject: Subject, case: Row) -> None:
    """Through torch.distributed, in groups of four, three and two ranks (as far as there are devices): all_reduce,
    also two that run at once, and of the largest and the smallest numbers, all_gather, all_gather_into_tensor,
    reduce_scatter_tensor, all_to_all_single, broadcast, send (also of what is written over at once) and recv, isend and
    irecv, of no rows to 16 MiB, of whole and real numbers of 8 to 64 bits."""
    _judge(subject, case, "group")


@_check(
    cases=groupings,
    founds="communicator",
    fix=_WITHIN,
)
def communicator_in_groups(subject: Subject, case: Row) -> None:
    """Every collective of the contract that the communicator has, in groups of four, three and two ranks, of no rows
    to 16 MiB, in one to three dimensions and along each, as slices of larger tensors, with and without the arguments
    that have defaults, into outputs that are given, and in turns with another group's; inputs stay as they are, and
    what was sent may be written over. Nothing is asked of one that is `disabled`, as it is on all ranks of its group or
    on none."""
    _of_communicator(subject)
    _judge(subject, case, "communicator")


@_check(
    fix="do not wait, poll with pauses or make buffers in each call: a decode step has two collectives in every layer"
)
def communicator_is_quick(subject: Subject) -> None:
    """The quickest of ten calls of each collective of the communicator, with 120 numbers, takes no more than thirty
    times as long as the quickest all_reduce through torch.distributed between the same two ranks."""
    times = _at_the_end(subject, "times")
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


@_check(
    fix="where flags or buffers are used in turn, wait until every rank is done with the one that comes round; count"
    " sizes anew in each call",
)
def hundreds_of_collectives_are_right(subject: Subject) -> None:
    """Of 280 calls of each of the communicator's collectives, of fewer numbers each time, every one is right, and what
    is left behind does not grow with their number."""
    for rank, wrong in enumerate(_at_the_end(subject, "wrong at call")):
        for operation, (call, how) in wrong.items():
            # Of the first call communicator_in_groups tells.
            what = f"of {operation} on rank {rank}, call {call} is the first that is not right: {how}"
            expect(call == 1, what)
    for rank, kept in enumerate(_at_the_end(subject, "kept")):
        for name, grown in kept.items():
            expect(
                min(grown) < _LEAST[name],
                f"on rank {rank} collectives leave more {name} each time: {', '.join(map(str, grown))} more in turns of"
                f" {KEPT_EXCHANGES} of each, and nothing of those is in use",
                fix="keep no tensor that was given or answered: register buffers of your own once, and copy into them,"
                " or forget what was registered when the call is done",
            )


def _at_the_end(subject: Subject, what: str) -> list[Any]:
    """What every rank tells of its communicator, once it has come so far."""
    _of_communicator(subject)
    told = told_by_ranks(subject)
    if all(what in one for one in told):
        return [one[what] for one in told]
    if all(any(one.get("disabled", {}).get("neighbours", ())) for one in told):
        raise NotApplicable("it is disabled in groups of two ranks: the host's own is used")
    first = failed_first(told)
    if first is not None and told[first]["at"].startswith(f"communicator/{ENDURING}/"):
        one = told[first]
        raise CheckFailed(
            f"rank {first} did not come through many calls: {one['error']}\n{one['log']}",
            fix=_fix_of_the_end(one),
        )
    raise Blocked("a rank did not come so far: see distributed.communicator_in_groups")


def _of_communicator(subject: Subject) -> None:
    subject.stands_on("communicator")
    subject.built = subject.platform.get_communicator_class()
    told = told_by_ranks(subject)
    if all(one.get("communicator", "unknown") is None for one in told):
        raise NotApplicable("get_communicator_class() answers None: the host's own is used")
    disabled = [flag for one in told for flags in one.get("disabled", {}).values() for flag in flags]
    if disabled and all(disabled) and failed_first(told) is None:
        raise NotApplicable("it is disabled in groups of two to four ranks: the host's own is used")


def _judge(subject: Subject, case: Row, via: str) -> None:
    subject.stands_on({"group": "process group"}.get(via, via))
    told = told_by_ranks(subject)
    front = f"{via}/{case.row}/"
    for rank, one in enumerate(told):
        disabled = one.get("disabled", {}).get(case.row, []) if via == "communicator" else []
        expect(
            all(disabled) or not any(disabled),
            f"on {_who(case.row, rank)}, it is disabled on some ranks and not on others: {disabled}",
            case={"group": case.row, "rank": rank},
            fix="decide `disabled` by what all ranks of the group have in common: those that wait for the others hang",
        )
        for key, problem in one.items():
            if key.startswith(front) and problem is not None:
                collective, tensor = key.removeprefix(front), problem["tensor"]
                raise CheckFailed(
                    f"{collective} of {tensor} on {_who(case.row, rank)}: {problem['what']}",
                    case={"group": case.row, "tensor": tensor, "rank": rank},
                    fix=_fix(devices_of(subject), via, case.row, collective, tensor, problem["what"]),
                )
    first = failed_first(told)
    if first is None:
        return
    one = told[first]
    if one["at"] and not one["at"].startswith(front):
        kinds = [*groups_of(devices_of(subject)), ENDURING]
        stopped, group = one["at"].split("/")[:2]
        if (_WAYS[stopped][0], kinds.index(group)) > (_WAYS[via][0], kinds.index(case.row)):
            return  # it was past these
        check_id = _WAYS[stopped][1]
        raise Blocked(f"a rank did not come so far: see distributed.{check_id}")
    _, _, collective, tensor = one["at"].split("/") if one["at"] else ("", "", "", "")
    where = f" in {collective}{f' of {tensor}' if tensor else ''}" if collective else ""
    if not one["at"] and "backend" in one:
        where = f" to its first collective (backend {one['backend']!r})"
    raise CheckFailed(
        f"{_who(case.row, first)} did not come through{where}: {one['error']}\n{one['log']}",
        case={"group": case.row, "tensor": tensor, "rank": first} if tensor else None,
        fix=_fix_of_the_end(one),
    )


def _fix_of_the_end(one: dict[str, Any]) -> str | None:
    if any(word in one["error"].lower() for word in _LATE):
        return None
    return _ENDED if one["at"] else _MEET


def _fix(devices: int, via: str, group: str, collective: str, tensor: str, what: str) -> str | None:
    """None is the check's own, which tells how to stay within the group."""
    if any(word in what.lower() for word in _LATE):
        return None
    meant = next((fix for seen, fix in _FIXES_BY_SIGHT.items() if what.startswith(seen)), None)
    if via == "group" or (meant is not None and not what.startswith("it raised")):
        return meant
    if GIVEN[tensor].slices is not None:
        return "take inputs of any strides: call contiguous() where the library wants it"
    meant = meant or _FIXES[collective.split()[0].rstrip(",")]
    if "all" not in groups_of(devices):  # whether it is right there is not known
        return f"{meant}; {_WITHIN}"
    return meant if group == "all" else None


def _who(group: str, rank: int) -> str:
    members = next((list(members) for members in groups_of(RANKS)[group] if rank in members), [])
    return f"rank {rank} of the world, group {members}"
