"""SGLang's attention kit on a platform, beside SGLang's own CPU device in the same environment.

    python -m sglang_platform.conformance.kits.attention PLATFORM

prints what passes, by method and runner mode. A case that fails on SGLang's device as well is not applicable here, and
the reason of both is kept; one that passes there must pass on the platform.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

from sglang_platform.conformance.check import NotApplicable
from sglang_platform.conformance.subject import Subject

__all__ = ["KitOutcome", "compared", "table"]

_PROGRAM = "sglang_platform.conformance.kits.attention_run"
_KIT = "sglang.test.kits.attention_unittest"
_LIMIT = 600


@dataclass(frozen=True)
class KitOutcome:
    """One case of the kit on the platform, and on SGLang's own CPU device."""

    method: str
    mode: str
    name: str
    passed: bool
    why: str
    passes_in_tree: bool
    why_in_tree: str

    @property
    def failed(self) -> bool:
        """Whether the platform lacks what SGLang's own device has."""
        return not self.passed and self.passes_in_tree

    def __str__(self) -> str:
        return f"{self.method}, {self.mode}: {self.name}: {self.why}"


@cache
def compared(platform: str, device: str, backend: str) -> tuple[KitOutcome, ...]:
    """Every case. Raises NotRun where this SGLang has no such kit, RuntimeError where a process of the kit died."""
    if find_spec("sglang") is None or find_spec("sglang.test.kits") is None or find_spec(_KIT) is None:
        raise NotApplicable("this SGLang has no attention kit; 0.5.15 and later do")
    in_tree = {one["name"]: one for one in _run({}, "cpu", "torch_native")}
    ours = _run({"SGLANG_PLATFORM": platform}, device, backend)
    return tuple(
        KitOutcome(
            one["method"],
            one["mode"],
            one["name"],
            one["passed"],
            one["why"],
            in_tree[one["name"]]["passed"],
            in_tree[one["name"]]["why"],
        )
        for one in ours
    )


def table(outcomes: Iterable[KitOutcome]) -> str:
    """Passed of all cases, by method and mode, in Markdown; below it what is not applicable, with its reason."""
    known = list(outcomes)
    modes = list(dict.fromkeys(one.mode for one in known))
    lines = [f"| method | {' | '.join(modes)} |", f"|---|{'---|' * len(modes)}"]
    for method in dict.fromkeys(one.method for one in known):
        cells = []
        for mode in modes:
            those = [one for one in known if (one.method, one.mode) == (method, mode)]
            cells.append(f"{sum(one.passed for one in those)} of {len(those)}" if those else "")
        lines.append(f"| {method} | {' | '.join(cells)} |")
    passed, in_tree = sum(one.passed for one in known), sum(one.passes_in_tree for one in known)
    lines += ["", f"{passed} of {len(known)} cases pass, {in_tree} on SGLang's own CPU device.", ""]
    for one in known:
        if one.failed:
            lines.append(f"- failed: {one}")
        elif not one.passed:
            lines.append(f"- not applicable: {one}; on SGLang's own CPU device: {one.why_in_tree}")
    return "\n".join(lines)


def _run(environment: dict[str, str], device: str, backend: str) -> list[dict[str, object]]:
    inherited = {name: value for name, value in os.environ.items() if name != "SGLANG_PLATFORM"}
    done = subprocess.run(
        [sys.executable, "-m", _PROGRAM, device, backend],
        env={**inherited, **environment, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise RuntimeError(
            f"the attention kit ended with {done.returncode} on {device}; its last lines:\n{tail}"
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _main(platform: str) -> None:
    os.environ["SGLANG_PLATFORM"] = platform
    subject = Subject(platform)
    device = subject.parts.device_argument
    print(table(compared(platform, device, subject.platform.get_default_attention_backend())))


if __name__ == "__main__":
    _main(*sys.argv[1:])
