"""Level 8: two ranks of one group on this machine exchange tensors, and each ends up with the right ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, check, expect, mended_by
from sglang_platform.conformance.fixtures.ranks import EXCHANGES, KEPT_EXCHANGES, RANKS, input_of, results_of
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import world_size
from sglang_platform.conformance.subject import Subject

_TWO = (world_size(RANKS),)


_LEAST = {"bytes in tensors": 1, "objects of Python": KEPT_EXCHANGES // 2}
"""In a turn: less is not one of each exchange."""


@dataclass(frozen=True)
class Exchange:
    operation: str
    tensor: str
    shape: tuple[int, ...]
    dtype: str
    dim: int


_FIXES = {
    "all_reduce": "all_reduce(x) returns the sum of x over all ranks, on every rank, in the shape and dtype of x",
    "all_gather": "all_gather(x, dim) returns the tensors of rank 0, 1, ... one after another along dim",
    "reduce_scatter": "reduce_scatter(x, dim) returns the part of the sum, along dim, that has this rank's number",
    "broadcast": "broadcast(x, src) gives every rank the tensor of rank src of the group",
}


def exchanges(subject: Subject, rng: random.Random) -> Iterator[Exchange]:
    """Each operation with each tensor, smallest first."""
    for operation in _FIXES:
        for name, (shape, dtype, dim) in EXCHANGES.items():
            if operation != "reduce_scatter" or shape[dim] % RANKS == 0:
                yield Exchange(operation, name, shape, dtype, dim)


def _of_groups(subject: Subject, rng: random.Random) -> Iterator[Exchange]:
    return (one for one in exchanges(subject, rng) if one.operation != "reduce_scatter")


@check(
    level=Level.DISTRIBUTED,
    requires=_TWO,
    fix="answer from get_torch_distributed_backend_str() a backend that torch.distributed has for this device, and from"
    " get_device(rank) the rank's own device",
    seconds=400,
)
def two_ranks_meet(subject: Subject) -> None:
    """Two processes, each with the platform, form a group with its backend and come to their end."""
    for rank, result in enumerate(results_of(subject)):
        if "error" in result:
            backend = result.get("backend")
            raise CheckFailed(
                f"rank {rank}{f' (backend {backend!r})' if backend else ''}: {result['error']}\n{result['log']}"
            )


@check(
    level=Level.DISTRIBUTED,
    requires=_TWO,
    cases=_of_groups,
    founds="process group",
    fix="the process group behind get_torch_distributed_backend_str() must carry the device's tensors of every dtype",
    seconds=400,
)
def group_collectives(subject: Subject, case: Exchange) -> None:
    """all_reduce, all_gather and broadcast through torch.distributed, on the device's tensors."""
    _judge(subject, case, "group")


@check(
    level=Level.DISTRIBUTED,
    requires=_TWO,
    cases=exchanges,
    founds="communicator",
    fix="answer with what the contract says of the operation, on every rank",
    seconds=400,
)
def communicator_collectives(subject: Subject, case: Exchange) -> None:
    """The communicator's sum over the ranks, whole and in parts, its concatenation along the first and the last
    dimension, and its broadcast from a rank other than 0."""
    with mended_by(_FIXES[case.operation]):
        _judge(subject, case, "communicator")


def _judge(subject: Subject, case: Exchange, via: str) -> None:
    results = results_of(subject)
    subject.stands_on({"group": "process group"}.get(via, via))
    if via == "communicator":
        subject.built = subject.platform.get_communicator_class()
        if all(result.get("communicator", "unknown") is None for result in results):
            raise NotApplicable("get_communicator_class() answers None: the host's own is used")
        if not any(key.startswith(f"communicator {case.operation} ") for result in results for key in result):
            _reach(results)
            return  # a communicator may leave operations to the host
    wanted = _expected(case)
    for rank, result in enumerate(results):
        got = result.get(f"{via} {case.operation} {case.tensor}")
        if got is None:
            _reach(results)
        if isinstance(got, dict):
            raise CheckFailed(f"{case.operation} raised on rank {rank}: {got['error']}")
        expect(
            isinstance(got, torch.Tensor)
            and got.shape == wanted[rank].shape
            and got.dtype == wanted[rank].dtype,
            f"{case.operation} on rank {rank} gives {_kind(got)}, and must give {_kind(wanted[rank])}",
        )
        if not torch.equal(got, wanted[rank]):
            raise CheckFailed(
                f"{case.operation} on rank {rank} is wrong: {_difference(case, got, wanted, rank)}"
            )


def _reach(results: list[dict[str, Any]]) -> None:
    for rank, result in enumerate(results):
        if "error" in result:
            raise CheckFailed(f"rank {rank} did not get that far: {result['error']}")


def _expected(case: Exchange) -> list[torch.Tensor]:
    given = [input_of(case.tensor, rank) for rank in range(RANKS)]
    total = torch.stack([x.double() for x in given]).sum(0).to(given[0].dtype)
    if case.operation == "all_reduce":
        return [total] * RANKS
    if case.operation == "all_gather":
        return [torch.cat(given, dim=case.dim)] * RANKS
    if case.operation == "reduce_scatter":
        return [part.contiguous() for part in total.chunk(RANKS, dim=case.dim)]
    return [given[1]] * RANKS


def _difference(case: Exchange, got: torch.Tensor, wanted: list[torch.Tensor], rank: int) -> str:
    for other, part in enumerate(wanted):
        if other != rank and got.shape == part.shape and torch.equal(got, part):
            return f"it is what rank {other} should have"
    for other in range(RANKS):
        own = input_of(case.tensor, other)
        if got.shape == own.shape and torch.equal(got, own):
            return f"it is what rank {other} had before"
    if case.operation == "all_gather":
        turned = torch.cat([input_of(case.tensor, r) for r in reversed(range(RANKS))], dim=case.dim)
        if torch.equal(got, turned):
            return "the ranks are in reverse order"
    where = torch.nonzero(got != wanted[rank])[0].tolist()
    at = tuple(where)
    return f"at {where} it has {got[at].item()}, and must have {wanted[rank][at].item()}"


def _kind(thing: Any) -> str:
    if isinstance(thing, torch.Tensor):
        return f"{str(thing.dtype).removeprefix('torch.')} {list(thing.shape)}"
    return repr(thing)


@check(
    level=Level.DISTRIBUTED,
    requires=_TWO,
    fix="keep no tensor that was given or answered: register buffers of your own once, and copy into them, or forget"
    " what was registered when the call is done",
    seconds=400,
)
def communicator_keeps_no_memory(subject: Subject) -> None:
    """Each of the communicator's collectives, called many times with tensors that are let go, of fewer numbers each
    time, leaves nothing: memory does not grow with their number."""
    subject.stands_on("communicator")
    for rank, result in enumerate(results_of(subject)):
        for kept, grown in _many_times(result, "kept by the communicator").items():
            expect(
                min(grown) < _LEAST[kept],
                f"on rank {rank} collectives leave more {kept} each time: {', '.join(map(str, grown))} more in turns of"
                f" {KEPT_EXCHANGES} of each, and nothing of those is in use",
            )


@check(
    level=Level.DISTRIBUTED,
    requires=_TWO,
    fix="where flags or buffers are used in turn, wait until every rank is done with the one that comes round; count"
    " sizes anew in each call",
    seconds=400,
)
def hundreds_of_collectives_are_right(subject: Subject) -> None:
    """Of 280 calls of each of the communicator's collectives, of another size each time, every one is right."""
    subject.stands_on("communicator")
    for rank, result in enumerate(results_of(subject)):
        for operation, (call, how) in _many_times(result, "wrong at call").items():
            if call == 1:  # see the checks of each collective
                continue
            raise CheckFailed(
                f"of {operation} on rank {rank}, call {call} is the first that is not right: {how}"
            )


def _many_times(result: dict[str, Any], what: str) -> dict[str, Any]:
    """What a rank has to tell of collectives that were called many times."""
    if "error" in result:
        raise Blocked("the ranks did not come to their end: see distributed.two_ranks_meet")
    if what not in result:
        raise NotApplicable("get_communicator_class() answers None: the host's group is used")
    return cast(dict[str, Any], result[what])
