"""The checker on real releases of SGLang, against a truth that was read from their sources by other means.

`SGLANG_PLATFORM_TEST_WHEELS` names a folder with the wheels (``pip download --no-deps sglang==0.5.11``, and so on for
0.5.15, 0.5.20 and 0.5.23). Without it, the installed release is checked alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.devtools.hook_check.check import CheckedHook, check
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.opening import open_host
from sglang_platform.devtools.upgrade.compare_hooks import HookAnswers
from sglang_platform.devtools.upgrade.coupling import Coupling, SourcePlace
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.sides import Sides

DATA = json.loads((Path(__file__).parent / "sglang_targets.json").read_text())
RELEASES: list[str] = DATA["releases"]
TARGETS: list[dict[str, Any]] = DATA["targets"]
PLACE = SourcePlace("hooks.py", 1)
WHEELS = os.environ.get("SGLANG_PLATFORM_TEST_WHEELS")


def wheel(release: str) -> str:
    """The wheel of a release, or the reason on screen why there is no test of it."""
    if not WHEELS:
        pytest.skip("SGLANG_PLATFORM_TEST_WHEELS names no folder with SGLang's wheels")
    found = sorted(Path(WHEELS).glob(f"sglang-{release}-*.whl"))
    if not found:
        pytest.skip(f"no wheel of SGLang {release} in {WHEELS} (SGLANG_PLATFORM_TEST_WHEELS)")
    return str(found[0])


def differences(rows: list[CheckedHook], release: str) -> list[str]:
    """Where the checker and the truth disagree, each with the evidence. What changed since another release exists."""
    found = []
    for row, target in zip(rows, TARGETS, strict=True):
        expected = target["expected"][release]
        verdict = expected["verdict"].replace("changed", "exists")
        if (row.verdict, list(row.moved_to)) != (verdict, expected.get("moved_to", [])):
            found.append(f"{target['target']}: {row.verdict} {row.why} {row.moved_to}, but {expected}")
    return found


def test_the_truth_covers_what_it_should() -> None:
    assert len(TARGETS) == 40
    in_one_release = Counter(target["expected"]["0.5.23"]["verdict"] for target in TARGETS)
    assert all(in_one_release[verdict] >= 8 for verdict in ("missing", "moved", "changed"))
    assert all(expected["reason"] for target in TARGETS for expected in target["expected"].values())


@pytest.mark.parametrize("release", RELEASES)
def test_the_verdicts_on_a_release_are_true(release: str) -> None:
    rows = check([WantedHook(target["target"]) for target in TARGETS], open_host(wheel(release), {"sglang"}))
    assert differences(rows, release) == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("written_for", ["0.5.11", "0.5.23"])
def test_what_changed_since_the_release_that_it_was_written_for_is_told(
    release: str, written_for: str
) -> None:
    old, new = (Release(open_host(wheel(one), {"sglang"})) for one in (written_for, release))
    wanted = [target for target in TARGETS if target["written_for"] == written_for]
    hooks = [WantedHook(target["target"]) for target in wanted]
    answers = HookAnswers(hooks, Sides(old, new))
    changes = [answers.change(Coupling("hook", one.target, PLACE, hook=one)) for one in hooks]
    told = [one.target for one in changes if one is not None and one.how == "changed"]
    assert told == [
        target["target"] for target in wanted if target["expected"][release]["verdict"] == "changed"
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_forty_targets_take_little_time(release: str) -> None:
    path = wheel(release)
    start = time.process_time()
    check([WantedHook(target["target"]) for target in TARGETS], open_host(path, {"sglang"}))
    assert (
        time.process_time() - start < 5
    )  # about 1.5 s; of the processor, so that a busy machine does not matter


@pytest.mark.host
def test_the_verdicts_on_the_installed_release_are_true() -> None:
    release = "0.5.23"
    loaded = {"torch", "sglang"} & set(sys.modules)
    rows = check([WantedHook(target["target"]) for target in TARGETS], open_host(release, {"sglang"}))
    assert {"torch", "sglang"} & set(sys.modules) == loaded
    assert differences(rows, release) == []
