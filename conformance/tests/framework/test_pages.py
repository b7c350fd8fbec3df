"""The pages of the checks: a section for each check, which says what, why and how."""

from __future__ import annotations

import inspect
import re
import subprocess
from pathlib import Path

import pytest

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.cli.pages import pages as command
from sglang_platform.conformance.pages.record import known_mistakes, mistakes_in, record_of
from sglang_platform.conformance.pages.text import pages

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def mistakes() -> dict[str, list[str]]:
    return mistakes_in((DOCS / "mutants.md").read_text(encoding="utf-8"))


def test_every_check_has_a_section_on_the_page_of_its_level(mistakes: dict[str, list[str]]) -> None:
    made = pages(registered().values(), mistakes)
    for name in registered():
        level, _, anchor = name.partition(".")
        heads = re.findall(r"^## (.+)$", made[f"{level}.md"], re.MULTILINE)
        assert heads.count(anchor) == 1, name
    assert all(f"]({name})" in made["index.md"] for name in made if name != "index.md")


def test_the_site_alone_has_the_generated_pages() -> None:
    """They are made when it is built; committed is what a reader of the repository is shown in their place."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "docs/checks"],
        cwd=DOCS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.split() == ["docs/checks/index.md"]


def test_every_section_says_why_what_and_how(mistakes: dict[str, list[str]]) -> None:
    for check in registered().values():
        record = record_of(check, mistakes)
        for text in (record.asks, record.why, record.cases, record.tolerance, record.fix, record.runs):
            assert text.strip(), check.id
        assert not re.search(r"\bfunctools\b|<function|lambda", record.cases), check.id


_JUDGES = {
    "judge",
    "run_step",
    "judge_states",
    "compare",
    "expect_ratio",
    "expect_like_torch",
    "expect_growth",
    "worst_element",
}
"""What allows numbers to be off, or compares times."""


def test_a_check_that_allows_something_says_what(mistakes: dict[str, list[str]]) -> None:
    silent = [
        check.id
        for check in registered().values()
        if _JUDGES.intersection(inspect.unwrap(check.function).__code__.co_names)
        and record_of(check, mistakes).tolerance.startswith("None: what is read back")
    ]
    assert silent == []


def test_the_suite_has_the_mistakes_of_the_mutants_with_it(
    mistakes: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Who has the wheel alone reads them too."""
    assert known_mistakes() == mistakes, "mistakes.json is stale: nox -s mutants writes it"
    command(["contract.memory_is_in_bytes"])
    told = capsys.readouterr().out
    assert mistakes["contract.memory_is_in_bytes"]
    assert all(one in told for one in mistakes["contract.memory_is_in_bytes"])


def test_the_mistakes_are_those_of_the_mutants(mistakes: dict[str, list[str]]) -> None:
    assert sum(map(len, mistakes.values())) > 150
    assert "a page behind the last is lent" in mistakes["memory.allocator_lends_every_page_once"]
    assert set(mistakes) <= set(registered())
    assert mistakes_in("| a | b | c | **nothing** | it survives |") == {}
