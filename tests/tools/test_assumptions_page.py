"""The page of what releases of SGLang assume of CUDA, on the invented host."""

from __future__ import annotations

from pathlib import Path

from sglang_platform.devtools.assumptions.survey import survey_of
from sglang_platform.devtools.source.opening import open_host
from tools.assumptions.__main__ import main
from tools.assumptions.page import assumptions_page

HOST = Path(__file__).parents[2] / "packages/sglang-platform-devtools/tests/assumptions/host"


def test_a_page_of_two_releases(tmp_path: Path) -> None:
    assert main(["--output", str(tmp_path / "page.md"), str(HOST), str(HOST)]) == 0
    survey = survey_of(open_host(str(HOST), {"sglang"}))
    assert (tmp_path / "page.md").read_text() == assumptions_page([survey, survey])
    assert f"| {survey.number_of(kind='triton')} |" in assumptions_page([survey])
