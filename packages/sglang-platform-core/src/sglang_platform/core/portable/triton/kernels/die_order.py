"""Which program does what, where several read the same rows of the cache: those take turns on one die.

A device of several dies has an L2 on each, and gives its programs to them in turn: program i of a launch runs on die
i mod DIES. Programs that read the same rows and follow each other in the launch then read them into every L2. Here
MEMBERS programs that share rows are a group, and DIES groups are laid beside each other, so that all members of one are
on one die, and next to each other in time:

    at = DIES * MEMBERS * block + DIES * member + group mod DIES

The groups that are left at the end, fewer than DIES, are laid out in the same way among themselves. Every (group,
member) has one number, so only the order changes. See `sglang_platform.conformance.kernels.compile.dies` for the bytes.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["shared_on_one_die"]


@triton.jit
def shared_on_one_die(at, groups, members, DIES: tl.constexpr):
    """The group and the member that program `at` of `groups` * `members` is."""
    block = at // (DIES * members)
    first = block * DIES
    beside = tl.minimum(groups - first, DIES)
    within = at - first * members
    return first + within % beside, within // beside
