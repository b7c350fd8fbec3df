"""Links: of pages outside the site they are looked up here, of the site by its build, whose warnings are errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("packages/*/*.md")),
    *sorted(ROOT.glob("conformance/*.md")),
]
PAGES += [*sorted(ROOT.glob("benchmarks/**/*.md")), *sorted((ROOT / ".github").glob("*.md"))]


def anchors(page: Path) -> set[str]:
    """Those that GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def broken(page: Path) -> list[str]:
    """The links of a page within the repository that lead nowhere."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        place, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = page.parent / place if place else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_no_link_within_the_repository_leads_nowhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Some `code`, here\n[a](none.md) [b](#some-code-here) [c](#none) [d](page.md#none) [e](https://x)\n"
    )
    assert broken(page) == ["none.md", "#none", "page.md#none"]


@pytest.mark.sample(5)
@pytest.mark.parametrize("link", ["none.md", "#none", "page.md#none", "other.md#none", "<none.md>"])
def test_the_build_of_the_site_fails_at_a_link_that_leads_nowhere(link: str, tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    (tmp_path / "index.md").write_text("# Index\n\n```{toctree}\npage\nother\n```\n")
    (tmp_path / "other.md").write_text("# Other\n\n## There\n")
    settings = ("-D", "extensions=myst_parser", "-D", "myst_heading_anchors=4")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-C",
        *settings,
        "-W",
        "-E",
        str(tmp_path),
        str(tmp_path / "site"),
    ]
    for target, status in (("other.md#there", 0), (link, 1)):
        (tmp_path / "page.md").write_text(f"# Page\n\n[text]({target})\n")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
