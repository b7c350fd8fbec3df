"""Level 10: SGLang's own server tests, unmodified from the installed wheel, on one server."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from sglang_platform.conformance.check import CheckFailed, NotRun, check, expect
from sglang_platform.conformance.host.engine import EngineFailed
from sglang_platform.conformance.kits import baseline
from sglang_platform.conformance.kits.server import in_tree, on_platform
from sglang_platform.conformance.kits.table import KITS, Kit
from sglang_platform.conformance.kits.verdict import Judged, judged
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import engine
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []


@cache
def _results(subject: Subject) -> tuple[Judged, ...]:
    """Every test of every kit, run once: they share the server."""
    ours = on_platform(subject.name, subject.parts.device_argument)
    return tuple(judged(ours, baseline.ended("server", in_tree)))


def _check(kit: Kit) -> Callable[[Subject], list[dict[str, Any]]]:
    def proof(subject: Subject) -> list[dict[str, Any]]:
        try:
            found = [one for one in _results(subject) if one.test.kit in (kit.name, "")]
        except EngineFailed as failed:
            raise CheckFailed(f"the server for SGLang's kits does not start: {failed}") from None
        if [one.verdict for one in found] == ["not in it"]:
            raise NotRun(f"this SGLang does not have it; {kit.module} is not in its wheel")
        wrong = [one for one in found if one.verdict == "failed"]
        parts = [one.as_part() for one in found]
        expect(not wrong, f"{len(wrong)} of {len(found)} tests: " + "; ".join(map(str, wrong)), parts=parts)
        return parts

    proof.__name__ = "sglang_" + re.sub(r"\W+", "_", kit.name.lower())
    proof.__doc__ = f"SGLang's own tests of {kit.name} (`sglang.test.kits.{kit.module}`) pass."
    return proof


for _kit in KITS:
    check(
        level=Level.KITS,
        requires=[engine()],
        hosts=("sglang",),
        seconds=1200,
        fix="run the test that is named against a server of your own, and read the server's output",
    )(_check(_kit))
