"""Level 10: SGLang's own server tests, unmodified from the installed wheel, on one server; its scripted runtime."""

from __future__ import annotations

import atexit
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.host.engine import EngineFailed
from sglang_platform.conformance.kits import baseline
from sglang_platform.conformance.kits.scripted_run import SCRIPTED
from sglang_platform.conformance.kits.server import KitServer, in_tree, scripted
from sglang_platform.conformance.kits.table import KITS, Kit
from sglang_platform.conformance.kits.verdict import KitTest, judged
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import engine
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []


@cache
def _server(subject: Subject) -> KitServer | str:
    """The server of all kits, or why it does not start."""
    try:
        found = KitServer(subject.name, {"device": subject.parts.device_argument})
    except EngineFailed as failed:
        return str(failed)
    atexit.register(found.close)
    return found


@cache
def _in_tree() -> list[KitTest]:
    return baseline.ended("server", in_tree)


def _told(name: str, module: str, ours: Sequence[KitTest]) -> list[dict[str, Any]]:
    """How each test ended. Raises NotApplicable for a kit that is not there, CheckFailed with the tests that failed."""
    if [one.outcome for one in ours] == ["missing"]:
        raise NotApplicable(f"this SGLang does not have it; {module} is not in its wheel")
    found = judged(ours, [one for one in _in_tree() if one.kit == name])
    wrong = [one for one in found if one.verdict == "failed"]
    parts = [one.as_part() for one in found]
    expect(not wrong, f"{len(wrong)} of {len(found)} tests: " + "; ".join(map(str, wrong)), parts=parts)
    return parts


def _check(kit: Kit) -> Callable[[Subject], list[dict[str, Any]]]:
    def proof(subject: Subject) -> list[dict[str, Any]]:
        _in_tree()  # first: where it is measured it has the machine to itself, and an idle server polls
        server = _server(subject)
        if isinstance(server, str) and kit is KITS[0]:
            raise CheckFailed(f"the server for SGLang's kits does not start: {server}")
        if isinstance(server, str):
            raise Blocked(
                f"the server for SGLang's kits does not start: see {Level.KITS.label}.{_name(KITS[0])}"
            )
        return _told(kit.name, f"kits.{kit.module}", server.run(kit))

    proof.__name__ = _name(kit)
    proof.__doc__ = (
        f"SGLang's own tests of {kit.name} (`sglang.test.kits.{kit.module}`) pass as on its own CPU device."
    )
    return proof


def _name(kit: Kit) -> str:
    return "sglang_" + re.sub(r"\W+", "_", kit.name.lower())


for _kit in KITS:
    check(
        level=Level.KITS,
        requires=[engine()],
        hosts=("sglang",),
        seconds=700 * baseline.patience(),  # the first one starts the server, and may teach its model
        fix="run the test that is named against a server of your own, and read the server's output",
    )(_check(_kit))


@check(
    level=Level.KITS,
    requires=[engine()],
    hosts=("sglang",),
    seconds=700 * baseline.patience(),
    fix="run the script that is named with `sglang_platform.conformance.kits.scripted_run`, and read its output",
)
def scripted_runtime(subject: Subject) -> list[dict[str, Any]]:
    """In SGLang's scripted runtime, which drives a scheduler step by step, prompts are cut, cached, paused, taken back,
    aborted and kept waiting as they are on SGLang's own CPU device."""
    _in_tree()
    try:
        ours = scripted({"device": subject.parts.device_argument}, {"SGLANG_PLATFORM": subject.name})
    except EngineFailed as failed:
        raise CheckFailed(str(failed)) from None
    return _told(SCRIPTED, "scripted_runtime", ours)
