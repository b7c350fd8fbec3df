"""Level 10: SGLang's own server tests, unmodified from the installed wheel, on one server."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from sglang_platform.conformance.check import CheckFailed, NotApplicable, NotRun, check, expect
from sglang_platform.conformance.host.engine import EngineFailed
from sglang_platform.conformance.host.server import ServerProcess
from sglang_platform.conformance.host.session import models_folder
from sglang_platform.conformance.kits.model import make_model
from sglang_platform.conformance.kits.server import OPTIONS, KitTest, run_kits
from sglang_platform.conformance.kits.table import KITS, Kit
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import engine
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_START_SECONDS = 300


@cache
def _results(subject: Subject) -> tuple[KitTest, ...]:
    """Every test of every kit, run once: they share the server."""
    model = make_model(models_folder() / "kits")
    options = {"model_path": str(model), **OPTIONS, "device": subject.parts.device_argument}
    with ServerProcess(subject.name, options, seconds=_START_SECONDS) as server:
        return tuple(run_kits(server, model))


def _check(kit: Kit) -> Callable[[Subject], None]:
    def proof(subject: Subject) -> None:
        try:
            found = [one for one in _results(subject) if one.kit in (kit.name, "")]
        except EngineFailed as failed:
            raise CheckFailed(f"the server for SGLang's kits does not start: {failed}") from None
        if [one.outcome for one in found] == ["missing"]:
            raise NotApplicable(f"this SGLang has no {kit.module}")
        if found and all(one.kit == "" for one in found):
            raise NotRun(f"the kits before it took too long or ended: {found[0].words}")
        wrong = [one for one in found if one.outcome == "failed" and one.test not in kit.needs_sense]
        expect(not wrong, f"{len(wrong)} of {len(found)} tests: " + "; ".join(map(str, wrong)))

    proof.__name__ = "sglang_" + re.sub(r"\W+", "_", kit.name.lower())
    proof.__doc__ = f"SGLang's own tests of {kit.name} (`sglang.test.kits.{kit.module}`) pass."
    return proof


for _kit in KITS:
    check(
        level=Level.KITS,
        requires=[engine()],
        hosts=("sglang",),
        seconds=700,
        fix="run the test that is named against a server of your own, and read the server's output",
    )(_check(_kit))
