"""SGLang's attention kit and its cache of prefixes, in a process of their own, without a model.

    python -m sglang_platform.conformance.kits.attention PLATFORM

prints how each test ended on the platform, beside SGLang's own CPU device.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from importlib.util import find_spec

from sglang_platform.conformance.check import NotApplicable
from sglang_platform.conformance.host.stacks import completed
from sglang_platform.conformance.kits import baseline
from sglang_platform.conformance.kits.verdict import Judged, KitTest, judged
from sglang_platform.conformance.subject import Subject

__all__ = ["compared", "in_tree"]

_PROGRAM = "sglang_platform.conformance.kits.attention_run"
_KIT = "sglang.test.kits.attention_unittest"
_LIMIT = 600


@cache
def compared(platform: str, device: str, backend: str) -> tuple[Judged, ...]:
    """Every case. Raises NotApplicable where this SGLang has no such kit, RuntimeError where its process fails."""
    if find_spec("sglang") is None or find_spec("sglang.test.kits") is None or find_spec(_KIT) is None:
        raise NotApplicable("this SGLang has no attention kit; 0.5.15 and later do")
    ours = _run({"SGLANG_PLATFORM": platform}, device, backend)
    return tuple(judged(ours, baseline.ended("attention", in_tree)))


def in_tree() -> list[KitTest]:
    """Every case on SGLang's own CPU device. Raises RuntimeError where its process fails."""
    return _run({}, "cpu", "torch_native")


def _run(environment: dict[str, str], device: str, backend: str) -> list[KitTest]:
    inherited = {name: value for name, value in os.environ.items() if name != "SGLANG_PLATFORM"}
    done = completed(
        [sys.executable, "-m", _PROGRAM, device, backend],
        env={**inherited, **environment, "HF_HUB_OFFLINE": "1"},
        seconds=_LIMIT,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise RuntimeError(
            f"the attention kit ended with {done.returncode} on {device}; its last lines:\n{tail}"
        )
    return [KitTest(**json.loads(line)) for line in done.stdout.splitlines()]


def _main(platform: str) -> None:
    os.environ["SGLANG_PLATFORM"] = platform
    subject = Subject(platform)
    found = compared(
        platform, subject.parts.device_argument, subject.platform.get_default_attention_backend()
    )
    for one in found:
        print(f"{one.verdict}: {one}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
