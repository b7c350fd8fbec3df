"""Failures of one cause are one block, the most fundamental first; what stands on a broken part is not run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import planted
import pytest

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.cli.causes import print_causes
from sglang_platform.conformance.expression import Expression
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome, failed_with
from sglang_platform.conformance.report.causes import by_cause
from sglang_platform.conformance.runner import Runner, Selection
from sglang_platform.core.cli.output import console


def _failed(name: str, *failing: dict[str, Any]) -> dict[str, Any]:
    plain = {
        "case": None,
        "failure": "check",
        "what": "wrong",
        "fix": "mend it",
        "place": None,
        "trace": None,
    }
    cases = [{"id": name, **plain, **one} for one in failing]
    return Outcome(name, name.partition(".")[0], "It holds.", **failed_with(cases)).as_dict()


def _blocked(name: str, by: str) -> dict[str, Any]:
    return Outcome(name, name.partition(".")[0], "It holds.", "blocked", why=f"wrong: see {by}").as_dict()


def _shape(*outcomes: dict[str, Any]) -> list[tuple[str, list[str], list[str]]]:
    return [
        (cause.first["id"], [one["id"] for one in cause.others], [one["id"] for one in cause.blocked])
        for cause in by_cause(outcomes)
    ]


def test_wrong_answers_with_one_fix_are_one_cause_over_levels() -> None:
    one, two = _failed("memory.a", {"fix": "keep row 3"}), _failed("kernels.b", {"fix": "keep row 17"})
    assert _shape(one, _failed("memory.c", {"fix": "allocate"}), two) == [
        ("memory.a", ["kernels.b"], []),
        ("memory.c", [], []),
    ]


def test_errors_of_one_line_are_one_cause_whatever_their_numbers_and_fixes() -> None:
    raised = {"failure": "error", "place": "pool.py:7"}
    one = _failed("memory.a", {**raised, "what": "IndexError: index 48 of 48", "fix": "a"})
    two = _failed("kernels.b", {**raised, "what": "IndexError: index 0x7f of 2.5e3", "fix": "b"})
    elsewhere = _failed("kernels.c", {**raised, "place": "pool.py:8", "what": "IndexError: index 1 of 1"})
    assert _shape(one, two, {**elsewhere, "fix": "c"}) == [
        ("memory.a", ["kernels.b"], []),
        ("kernels.c", [], []),
    ]


def test_a_cause_that_only_a_later_case_shows_is_the_same_cause() -> None:
    one = _failed("memory.a", {"fix": "first"}, {"fix": "second"})
    assert _shape(one, _failed("memory.b", {"fix": "second"})) == [("memory.a", ["memory.b"], [])]


def test_rows_of_a_table_that_fail_are_causes_of_their_own() -> None:
    rows = [{"case": {"row": name}, "fix": name} for name in ("threads", "logging")]
    one, two = _failed("packaging.a", *rows), _failed("packaging.b", {"fix": "logging"})
    causes = by_cause([one, two, _blocked("contract.c", "packaging.a")])
    assert [(cause.first["case"], cause.first["fix"]) for cause in causes] == [
        ({"row": "threads"}, "threads"),
        ({"row": "logging"}, "logging"),
    ]
    assert _shape(one, two) == [("packaging.a", [], []), ("packaging.a", ["packaging.b"], [])]
    assert len(causes[0].blocked) == 1


def test_what_is_blocked_belongs_to_what_blocks_it_which_is_told_first() -> None:
    outcomes = [
        _blocked("packaging.early", "memory.b"),
        _failed("memory.a", {"fix": "a"}),
        _failed("memory.b", {"fix": "b"}),
        _blocked("kernels.c", "memory.b"),
        _blocked("graphs.d", "kernels.c"),
    ]
    assert _shape(*outcomes) == [
        ("memory.b", [], ["packaging.early", "kernels.c", "graphs.d"]),
        ("memory.a", [], []),
    ]


def test_rows_that_fail_at_one_line_of_the_plugin_are_one_cause() -> None:
    places = {"padding": "runner.py:14", "long contexts": "runner.py:14", "trees": "runner.py:40"}
    rows = [{"case": {"row": name}, "fix": name, "place": place} for name, place in places.items()]
    first, second = by_cause([_failed("graphs.a", *rows)])
    assert [one["case"]["row"] for one in first.first["failing"]] == ["padding", "long contexts"]
    assert second.first["fix"] == "trees"


def test_ops_that_fail_one_check_are_causes_of_their_own_each_with_what_stands_on_it() -> None:
    norm, gate = ({"case": {"op": op}, "fix": fix} for op, fix in (("a.norm", "mean"), ("a.gate", "first")))
    values = _failed("kernels.op_values", norm, {**norm, "fix": "residual"}, gate)
    rows = _failed("kernels.rows", {**gate, "fix": "first"})
    assert _shape(
        values,
        rows,
        Outcome(
            "kernels.b", "kernels", "It.", "blocked", why="op a.gate fails: see kernels.op_values"
        ).as_dict(),
        Outcome(
            "kernels.c", "kernels", "It.", "blocked", why="op a.norm fails: see kernels.op_values"
        ).as_dict(),
    ) == [
        ("kernels.op_values", [], ["kernels.c"]),
        ("kernels.op_values", ["kernels.rows"], ["kernels.b"]),
    ]


def test_at_most_five_blocks_of_at_most_eight_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long = {"fix": "write row loc[i] of the named layer's buffer from row i of the input, " * 2}
    many = [_failed(f"memory.check_{at}", {"fix": f"{'abcdefgh'[at]} mends it"}) for at in range(8)]
    first = _failed(
        "memory.first", {**long, "what": "slot 3 holds 5 " * 90, "case": {"size": list(range(90))}}
    )
    first |= {"source": "sglang_platform/conformance/checks/pool_stores.py:21", "place": "/vendor/pool.py:7"}
    first |= {"rerun": "sglang-platform conformance --platform my_device --check memory.first --seed 0"}
    print_causes(
        console(), [first, *many, *(_blocked(f"kernels.b_{at}", "memory.first") for at in range(99))]
    )
    shown = capsys.readouterr().out
    head, *blocks = shown.split("failed ")[1:]
    assert len(head.splitlines()) == 8
    assert max(map(len, shown.splitlines())) <= 80
    assert head.startswith("memory.first")
    assert "99 not run: kernels.b_0, " in head
    assert head.index("at:") < head.index("seen:") < head.index("fix:")
    assert shown.count("again:") == 1
    assert len(blocks) == 4
    assert "4 more causes: memory.check_4, " in shown


PLANTED: dict[str, tuple[str, str, str, str]] = {
    # platform: the check of the first block, words of its fix or of what was seen, the levels, an expression
    "PageShort": ("memory.store_reads_back", "allocate size + page_size rows", "memory kernels graphs", ""),
    "RowBeside": ("memory.store_reads_back", "write row loc[i]", "memory kernels graphs", ""),
    "LatentCut": ("memory.store_reads_back", "write row loc[i]", "memory kernels", ""),
    "WideOutput": ("kernels.decode_attention", "answer in the type of the queries", "kernels graphs", ""),
    "LastTokenUnread": ("kernels.decode_attention", "a token attends to itself", "kernels graphs", ""),
    "SinkTwice": ("kernels.sink_attention", "add exp(sink) to the sum", "kernels", ""),
    "AliasedOutput": ("kernels.batches_follow_each_other", "the output of each call", "kernels", ""),
    "NoReplay": (
        "graphs.every_input_is_copied",
        "run the captured graph in every replay",
        "graphs",
        "replay or input",
    ),
    "StaleInput": ("graphs.every_input_is_copied", "copy positions", "graphs", ""),
    "BucketTooSmall": ("graphs.every_input_is_copied", "the smallest captured size", "graphs", ""),
    "SlotTwice": ("memory.allocator_lends_every_page_once", "each once", "memory", "alloc or free"),
    "SlotsLost": ("memory.allocator_lends_every_page_once", "give back the page of", "memory", ""),
    "NormEpsilon": ("kernels.op_values", "epsilon inside the", "kernels", "norm or op"),
    "RotationBackwards": ("kernels.op_values", "pairs are (i, i +", "kernels", "rotary or op"),
    "HalvesExchanged": ("kernels.op_values", "the gate comes first", "kernels", "silu or op"),
    "SumOfOne": ("distributed.communicator_in_groups", "the sum over ranks", "distributed", ""),
    "MemoryInMiB": ("contract.memory_is_in_bytes", "return bytes", "contract", ""),
}
_IN_UNIT = ("SlotTwice", "HalvesExchanged", "NoReplay")


_FINDS_PLANTED = {
    "PYTHONPATH": os.pathsep.join([str(Path(planted.__file__).parent), os.environ.get("PYTHONPATH", "")]),
    "OMP_NUM_THREADS": "1",
}


def _causes(name: str, **chosen: Any) -> Any:
    selection = Selection(f"planted=planted:{name}", environment=_FINDS_PLANTED, patience=4, **chosen)
    return by_cause([one.as_dict() for one in Runner(selection).run()])


def _judge(name: str, causes: Any) -> None:
    check, words, _, _ = PLANTED[name]
    told = {cause.first["id"]: cause.first["what"] for cause in causes}
    assert 1 <= len(causes) <= 3, told
    first = causes[0].first
    assert first["id"] == check, told
    assert words in first["fix"], first["fix"]
    place, _, line = first["place"].rpartition(":")
    assert Path(place) == Path(planted.__file__)
    source = Path(planted.__file__).read_text().splitlines()
    begin = next(at for at, text in enumerate(source) if text.startswith(f"class {name}("))
    # Of an op the registered function is named, which stands above the platform.
    assert int(line) > begin or source[int(line) - 1].startswith("def _"), first["place"]


@pytest.mark.sample(3)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _IN_UNIT)
def test_a_planted_defect_is_one_to_three_causes_the_first_is_the_true_one(name: str) -> None:
    _, _, levels, words = PLANTED[name]
    causes = _causes(
        name,
        levels=tuple(map(Level.parse, levels.split())),
        expression=Expression(f"({words}) and not time and not slower and not quick"),
    )
    _judge(name, causes)
    assert causes[0].blocked


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_over_the_whole_suite(name: str) -> None:
    causes = _causes(name)
    _judge(name, causes)
    assert name != "PageShort" or len(causes) <= 2


def test_what_others_stand_on_runs_first_in_its_level() -> None:
    for level in (Level.MEMORY, Level.KERNELS, Level.GRAPHS, Level.DISTRIBUTED):
        chosen = Selection("none", levels=(level,)).chosen()
        founding = [at for at, one in enumerate(chosen) if one.founds]
        assert founding == list(range(len(founding)))
        assert founding


def test_every_check_names_its_file_and_line() -> None:
    root = Path(registered.__code__.co_filename).parents[2]
    for check in registered().values():
        file, _, line = check.source.rpartition(":")
        text = (root / file).read_text().splitlines()[int(line) - 1 :]
        assert text, check.id
