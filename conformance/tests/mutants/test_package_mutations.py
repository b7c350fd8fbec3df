"""The mutation tool for whole packages: what it changes, where, who is asked, and that its reasons are still needed."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "packages"))

from areas import AREAS, ROOT, module_of
from asking import ask
from cpp import cpp_mutations
from generated_mutations import mutations
from judged import judge
from packages_page import with_section
from run_packages import sample
from seen import judges_of
from survivors import REASONS

HERE = Path(__file__).parent
KINDS = """
def f(self, x, y):
    copied = torch.zeros(3, dtype=torch.int64).sum(dim=-1)
    x.add_(y)
    return torch.mul(x, y, out=copied)
"""


def test_kinds_of_tensors() -> None:
    found = {(one.kind, one.new) for one in mutations("f.py", KINDS)}
    assert found >= {
        ("type", "copied = torch.zeros(3, dtype=torch.int32).sum(dim=-1)"),
        ("axis", "copied = torch.zeros(3, dtype=torch.int64).sum(dim=0)"),
        ("in place", "x.add(y)"),
        ("in place", "return torch.mul(x, y)"),
        ("arguments", "return torch.mul(y, x, out=copied)"),
    }


def test_cpp_changes_one_place_and_leaves_comments_and_templates() -> None:
    text = "// a < b\ntemplate <int n>\nfor (int i = 0; i < n; ++i) {\n  sum += x[i + 1];\n}\n"
    found = [(one.line, one.kind, one.new) for one in cpp_mutations("f.cpp", text)]
    assert (3, "comparison", "for (int i = 0; i <= n; ++i) {") in found
    assert (4, "arithmetic", "sum -= x[i + 1];") in found
    assert (4, "number", "sum += x[i + 2];") in found
    assert {line for line, _, _ in found} == {3, 4}
    for one in cpp_mutations("f.cpp", text):
        assert sum(a != b for a, b in zip(text.splitlines(), one.text.splitlines(), strict=True)) == 1


def test_a_sample_is_seeded_and_a_larger_one_goes_on() -> None:
    short, long = list(sample(8, 3)), list(sample(20, 3))
    assert long[:8] == short
    assert [one for _, one in sample(8, 4)] != [one for _, one in short]
    assert len({(one.file, one.line, one.new) for _, one in long}) == len(long)
    for area, one in long:
        assert (ROOT / one.file).exists()
        assert area in {each.name for each in AREAS}
        if one.file.endswith(".py"):
            compile(one.text, one.file, "exec")


def test_those_are_asked_that_run_the_line_quickest_first() -> None:
    seen = {
        "check:slow": {"seconds": 9.0, "failed": None, "lines": {"a.py": [3, 4]}},
        "check:quick": {"seconds": 1.0, "failed": None, "lines": {"a.py": [4]}},
        "check:elsewhere": {"seconds": 0.1, "failed": None, "lines": {"b.py": [4]}},
        "check:broken": {"seconds": 0.1, "failed": "always", "lines": {"a.py": [4]}},
        "test:own": {"seconds": 0.1, "failed": None, "lines": {"a.py": [4]}},
    }
    assert judges_of(seen, "a.py", range(4, 5)) == [["check:quick", "check:slow"], ["test:own"]]
    assert judges_of(seen, "a.py", range(7, 9)) == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_line_is_watched_and_a_change_of_it_is_killed(tmp_path: Path) -> None:
    """From the record of one check to its verdict, with the real package."""
    name = "memory.stores_of_every_form_read_back"
    watched = {
        "LINES_SEEN_IN": str(tmp_path),
        "LINES_SEEN_OF": f"{ROOT}/packages/sglang-platform-example-oot/src/",
    }
    (answer,) = ask([f"check:{name}"], watched, seconds=300)
    assert answer.failed is None, answer
    file = "packages/sglang-platform-example-oot/src/sglang_platform/example_oot/kv_pools.py"
    lines = json.loads((tmp_path / name / "own.json").read_text())[str(ROOT / file)]
    seen = {f"check:{name}": {"seconds": 1.0, "failed": None, "lines": {file: lines}}}
    text = (ROOT / file).read_text()
    (wrong,) = islice(
        (one for one in mutations(file, text) if one.line in lines and one.kind == "statement"), 1
    )
    killed = judge("example, Python", wrong, seen)
    assert (killed.killer, killed.asked) == (f"check:{name}", 1), killed
    page = with_section("# Generated\n\nabove\n", [killed], 0)
    assert page.startswith("# Generated\n\nabove\n\n## Packages, sampled\n")
    assert "| example, Python | 1 | 1 | 0 | 0 | 0 |" in page
    assert with_section(page, [killed], 0) == page


@pytest.mark.long
def test_every_reason_is_of_a_mutation_that_is_still_made() -> None:
    stale = []
    for name in REASONS:
        file, _, change = name.partition(": ")
        text = (ROOT / file).read_text()
        made = cpp_mutations(file, text) if file.endswith(".cpp") else mutations(file, text)
        if not any(one.name == f"{file}: {change}" for one in made):
            stale.append(name)
    assert stale == []


def test_the_command_names_its_options() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "packages" / "run_packages.py"), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    for option in ("--sample", "--seed", "--area", "--again", "--write"):
        assert option in done.stdout


def test_the_import_name_of_a_file() -> None:
    area = next(one for one in AREAS if one.name == "core, memory")
    names = {module_of(path) for path in area.files()}
    assert "sglang_platform.core.memory.mha" in names
