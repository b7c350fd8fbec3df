"""One version: `.ci/version.py` prints it, writes it, and compares it with a tag."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = [*ROOT.glob("packages/*/pyproject.toml"), ROOT / "conformance" / "pyproject.toml"]


def version(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / ".ci" / "version.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what has a version."""
    for file in [
        ROOT / ".ci" / "version.py",
        *PROJECTS,
        *(one.with_name("CHANGELOG.md") for one in PROJECTS),
    ]:
        copy = tmp_path / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    return tmp_path


def test_all_distributions_have_one_version() -> None:
    run = version(ROOT)
    assert run.returncode == 0, run.stderr
    assert len(PROJECTS) == 6


def test_a_new_version_is_written_everywhere(checkout: Path) -> None:
    assert version(checkout, "7.8.9").stdout == "7.8.9\n"
    assert version(checkout, "--tag", "v7.8.9").returncode == 0
    texts = [(checkout / one.relative_to(ROOT)).read_text() for one in PROJECTS]
    assert all('\nversion = "7.8.9"\n' in text for text in texts)
    asked = re.findall(r'"sglang-platform-[a-z-]+([=<>~][^"]*)"', "".join(texts))
    assert set(asked) == {"==7.8.9", ">=7.8,<7.9"}


@pytest.mark.parametrize(
    ("edit", "file"),
    [
        (('version = "', 'version = "9'), "packages/sglang-platform-rocm/pyproject.toml"),
        (("core==", "core==9"), "packages/sglang-platform-cuda/pyproject.toml"),
        (("devtools==", "devtools>="), "conformance/pyproject.toml"),
        (("core>=0.1,", "core>=0.0,"), "packages/sglang-platform-example-oot/pyproject.toml"),
    ],
)
def test_one_that_disagrees_is_named(checkout: Path, edit: tuple[str, str], file: str) -> None:
    path = checkout / file
    path.write_text(path.read_text().replace(*edit, 1))
    run = version(checkout)
    assert run.returncode == 1
    assert file in run.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tag", "v9.9.9"], "the tag is v9.9.9"),
        (["--tag"], "the tag is missing"),
        (["0.2"], "is no version"),
        (["v0.2.0"], "is no version"),
    ],
)
def test_a_wrong_tag_or_version_is_refused(checkout: Path, arguments: list[str], words: str) -> None:
    run = version(checkout, *arguments)
    assert run.returncode == 1
    assert words in run.stderr


def test_a_tag_without_a_section_in_a_changelog_is_refused(checkout: Path) -> None:
    version(checkout, "7.8.9")
    changes = checkout / "conformance" / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace("## 7.8.9 - ", "## 7.8.8 - "))
    run = version(checkout, "--tag", "v7.8.9")
    assert run.returncode == 1
    assert "conformance/CHANGELOG.md" in run.stderr
