"""The mutation tool on a file of a few lines, and the reasons given for survivors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from generated_mutations import Mutation, mutations
from generated_survivors import REASONS
from patched_reference import SOURCE

TEXT = '''"""A docstring."""
__all__ = ["f"]


def f(values: list[int], at: int) -> int:
    """Another."""
    if at < 2 and not values:
        raise ValueError("at 1")
    total = values[at:] + [1]
    return sum(total)
'''


@pytest.fixture(scope="module")
def found() -> list[Mutation]:
    return mutations("f.py", TEXT)


def test_every_kind_of_change_is_made_once(found: list[Mutation]) -> None:
    assert sorted((one.kind, one.old, one.new) for one in found) == sorted(
        [
            ("comparison", "if at < 2 and (not values):", "if at <= 2 and (not values):"),
            ("logic", "if at < 2 and (not values):", "if at < 2 or not values:"),
            ("logic", "if at < 2 and (not values):", "if at < 2 and values:"),
            ("logic", "if at < 2 and (not values):", "if not (at < 2 and (not values)):"),
            ("number", "if at < 2 and (not values):", "if at < 3 and (not values):"),
            ("arithmetic", "total = values[at:] + [1]", "total = values[at:] - [1]"),
            ("number", "total = values[at:] + [1]", "total = values[at:] + [2]"),
            ("slice", "total = values[at:] + [1]", "total = values[:] + [1]"),
            ("statement", "total = values[at:] + [1]", "pass"),
        ]
    )


def test_each_is_a_whole_file_that_differs_in_one_place(found: list[Mutation]) -> None:
    for one in found:
        compile(one.text, one.file, "exec")
        assert '"""A docstring."""' in one.text
        assert "at 1" in one.text


def test_every_explained_survivor_is_still_a_mutation() -> None:
    names = {
        one.name
        for file in sorted({name.partition(":")[0] for name in REASONS})
        for one in mutations(file, (SOURCE / file).read_text())
    }
    assert sorted(set(REASONS) - names) == []
