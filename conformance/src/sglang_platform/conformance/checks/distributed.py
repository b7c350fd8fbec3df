"""Level 8: two ranks of one group on this machine meet, and exchange tensors many times."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.fixtures.ranks import KEPT_EXCHANGES, RANKS, results_of
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import world_size
from sglang_platform.conformance.subject import Subject

_LEAST = {"bytes in tensors": 1, "objects of Python": KEPT_EXCHANGES * 3 // 4}
"""In a turn: less is not one of each exchange."""

_check = partial(check, level=Level.DISTRIBUTED, requires=(world_size(RANKS),), seconds=400)


@_check(
    fix="answer from get_torch_distributed_backend_str() a backend that torch.distributed has for this device, and from"
    " get_device(rank) the rank's own device",
)
def two_ranks_meet(subject: Subject) -> None:
    """Two processes, each with the platform, form a group with its backend and come to their end."""
    for rank, result in enumerate(results_of(subject)):
        if "error" in result:
            backend = result.get("backend")
            raise CheckFailed(
                f"rank {rank}{f' (backend {backend!r})' if backend else ''}: {result['error']}\n{result['log']}"
            )


@_check(
    fix="keep no tensor that was given or answered: register buffers of your own once, and copy into them, or forget"
    " what was registered when the call is done",
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


@_check(
    fix="where flags or buffers are used in turn, wait until every rank is done with the one that comes round; count"
    " sizes anew in each call",
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
