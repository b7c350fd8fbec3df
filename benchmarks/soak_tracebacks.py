"""The tracebacks in a server's log, by cause. Those that SGLang writes of work that is right are known, with their
place; any other is a fault."""

from __future__ import annotations

import collections
import re
from typing import NamedTuple

__all__ = ["KNOWN", "OF_A_KILLED_RANK", "OF_A_KILLED_TRACKER", "Known", "by_cause"]

_ONE = r"Traceback \(most recent call last\):\n(?:[ \t|+].*\n|\n)*\S.*"
_CHAINED = r"\n+(?:During handling of the above|The above exception was the direct)[^\n]*\n+"
_WITH_ITS_CAUSES = re.compile(f"{_ONE}(?:{_CHAINED}{_ONE})*")


class Known(NamedTuple):
    """A traceback that SGLang writes though nothing is lost."""

    words: str
    """What was raised, as a regular expression."""

    place: str
    """The file of SGLang among its frames, and the function."""

    cause: str


KNOWN = (
    Known(
        r"TypeError: lora_id must be either a string or a list of strings\.",
        'sglang/srt/lora/lora_registry.py", line [0-9]+, in release',
        "a request ends before its adapter is looked up, since there is none of that name, or its client left while "
        "weights were updated: TokenizerManager._release_lora_once gives back what was not taken",
    ),
)  # fmt: skip


OF_A_KILLED_RANK = (
    Known(
        r"RuntimeError: \[.*gloo/transport.*\] .*(closed by peer|reset by peer|Broken pipe)",
        r'sglang/srt/managers/scheduler\.py", line [0-9]+, in run_scheduler_process',
        "a rank says that its peer is gone, as it should",
    ),
)

OF_A_KILLED_TRACKER = (
    Known(
        r"KeyError: '/(mp-|psm_|sgl_shm_)\w+'",
        r'multiprocessing/resource_tracker\.py", line [0-9]+, in main',
        "the tracker that Python began anew is told to forget what only the killed one knew",
    ),
)


def by_cause(log: str, known: tuple[Known, ...] = KNOWN) -> tuple[dict[str, int], list[str]]:
    """How often each known cause is told; and the tracebacks that are not known, whole."""
    counts: collections.Counter[str] = collections.Counter()
    unknown = []
    for found in _WITH_ITS_CAUSES.findall(log):
        cause = next(
            (one.cause for one in known if re.search(one.words, found) and re.search(one.place, found)), None
        )
        if cause is None:
            unknown.append(found)
        else:
            counts[cause] += 1
    return dict(counts), unknown
