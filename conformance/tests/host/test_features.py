"""Features of SGLang on the example device: those here are tried in every run, all of them by `nox -s features`."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from sglang_platform.conformance.host.features.launch import EngineLaunch, RefusedBeforeLaunch
from sglang_platform.conformance.host.features.record import all_features, feature
from sglang_platform.conformance.host.features.running import words_of_refusal
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.report.features_page import features_page
from sglang_platform.conformance.runner import Runner, Selection
from sglang_platform.core.errors import LaunchRefused

IN_EVERY_RUN = (
    "json_schema_xgrammar",
    "regex_xgrammar",
    "ebnf_xgrammar",
    "lora_two_adapters",
    "vision_language_model",
)


@pytest.mark.engine
@pytest.mark.timeout(1200)
def test_features_are_served_on_the_example(models: Path) -> None:
    checks = tuple(f"features.{name}" for name in IN_EVERY_RUN)
    environment = {"SGLANG_PLATFORM_TEST_MODELS": os.environ.get("SGLANG_PLATFORM_TEST_MODELS", str(models))}
    outcomes = Runner(Selection("example_oot", host="sglang", checks=checks, environment=environment)).run()
    assert {one.id: (one.status, one.what or one.why) for one in outcomes} == dict.fromkeys(
        checks, ("passed", None)
    )


def test_features_that_share_a_launch_stand_together() -> None:
    launches = [one.launch for one in all_features() if one.launch is not None]
    changes = sum(first != second for first, second in itertools.pairwise(launches))
    assert changes == len(set(launches)) - 1
    assert len({launch.name for launch in launches}) <= 42


def test_a_feature_must_say_what_it_proves() -> None:
    with pytest.raises(ValueError, match="no docstring"):

        @feature(group="g", title="t", launch=EngineLaunch("none"), fix="f")
        def unsaid(run: object) -> None: ...


_REFUSED = LaunchRefused("no pages of 7", why="it declares 1\nand 16", fix="give 16")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            "Traceback ...\nsglang_platform.core.errors.LaunchRefused: no pages of 7\n  fix: 16",
            "no pages of 7",
        ),
        ("Traceback ...\nValueError: NGRAM needs a GPU", "NGRAM needs a GPU"),
        (f"{_REFUSED}\n[2026] kill_process_tree called", "no pages of 7: it declares 1 and 16"),
        (f"{_REFUSED}\nSegmentation fault", None),
        ("[2026 TP0] Scheduler hit an exception: ...\nRuntimeError: Unsupported device: x", None),
        ("Traceback ...\nRuntimeError: Rank 0 scheduler died during initialization (exit code: 1)", None),
        ("the process was killed", None),
    ],
)
def test_a_refusal_is_told_from_a_death(output: str, words: str | None) -> None:
    assert words_of_refusal(output) == words


def test_the_page_tells_served_from_refused_and_from_unread() -> None:
    first = all_features()[0].group
    served, refused, broken = [one for one in all_features() if one.group == first][:3]
    rest = [one for one in all_features() if one not in (served, refused, broken)]
    outcomes = [
        Outcome(f"features.{served.name}", "features", "", "passed"),
        Outcome(
            f"features.{refused.name}",
            "features",
            "",
            "not_run",
            cause="refused",
            why=str(RefusedBeforeLaunch("no such | thing")),
        ),
        Outcome(f"features.{broken.name}", "features", "", "failed", what="wrong tokens\nand more"),
    ]
    report = {
        "platform": {"name": "p"},
        "environment": {"packages": {"sglang": "0.5.23"}},
        "run": {"started": "2026-01-02T00:00:00+00:00"},
        "outcomes": [one.as_dict() for one in outcomes],
    }
    before = {**report, "run": {"started": "2026-01-01T00:00:00+00:00"}}
    before["outcomes"] = [{**outcomes[0].as_dict(), "status": "failed", "what": "of yesterday"}]
    page = features_page([report, before], [served, refused, broken, *rest])
    rows = {
        line.split("|")[1].strip(): line.split("|")[2].strip()
        for line in page.splitlines()
        if line.startswith("|")
    }
    assert rows[served.title] == "served"
    assert rows[refused.title] == "refused (1)"
    assert rows[broken.title] == "**fails** (2)"
    assert rows[rest[0].title] == "unverified (3)"
    assert rows["served, of those in the release"] == "1 of 3"
    assert "1. no such | thing" in page
    assert "2. wrong tokens" in page
