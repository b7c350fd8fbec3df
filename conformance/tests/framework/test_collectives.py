"""Which groups are judged on so many devices, and that the fix of a failed collective is of what was seen."""

from __future__ import annotations

import pytest

from sglang_platform.conformance.checks.collectives import _FIXES, _fix
from sglang_platform.conformance.fixtures.communicator_collectives import collectives_of_a_communicator
from sglang_platform.conformance.fixtures.four_ranks import RANKS, groups_of


class _Whole:
    def __getattr__(self, name: str) -> None:
        """Has every collective."""


@pytest.mark.parametrize(
    ("devices", "kinds"),
    [
        (1, []),
        (2, ["neighbours"]),
        (3, ["every second", "neighbours", "without rank 0"]),
        (4, ["all", "every second", "neighbours", "without rank 0"]),
    ],
)
def test_no_two_ranks_of_a_group_share_a_device(devices: int, kinds: list[str]) -> None:
    groups = groups_of(devices)
    assert list(groups) == kinds
    for members in (one for kind in groups.values() for one in kind):
        assert len({rank % devices for rank in members}) == len(members)
        assert max(members) < RANKS


def test_every_collective_has_a_fix() -> None:
    for name in collectives_of_a_communicator(_Whole()):
        assert name.split()[0].rstrip(",") in _FIXES, name


_SEEN = [
    ("its answer changes when it is called again: both", "all", "give every answer memory of its own"),
    ("its answer changes when it is called again: both", "neighbours", "give every answer memory of its own"),
    ("it changes its input: at [0]", "all", "leave the input as it is"),
    ("it works in place, and the tensor", "every second", "write the result into the tensor"),
    ("it answers on cpu, and the tensors", "all", "answer on the device of the tensors"),
    ("it raised ValueError: bool", "all", "take every tensor that the contract allows"),
    ("it raised RuntimeError: timed out", "all", None),
    ("it raised ValueError: rank 3 is not in the group", "every second", None),
    ("it gives what rank 1 of the group had before", "all", "answer the sum over ranks"),
    ("at [0, 3] it has 1, and must have 2", "all", "answer the sum over ranks"),
    ("at [0, 3] it has 1, and must have 2", "without rank 0", None),
]


@pytest.mark.parametrize(("seen", "group", "fix"), _SEEN)
def test_a_fix_is_of_what_was_seen(seen: str, group: str, fix: str | None) -> None:
    given = _fix(4, "communicator", group, "all_reduce", "a matrix", seen)
    assert given is None if fix is None else (given or "").startswith(fix)


def test_where_the_whole_world_is_not_tried_both_are_named() -> None:
    fix = (
        _fix(2, "communicator", "neighbours", "broadcast by default", "a matrix", "it gives what rank 1")
        or ""
    )
    assert "write the tensor of rank `src`" in fix
    assert "dist.get_global_rank()" in fix
