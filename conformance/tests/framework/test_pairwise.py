"""Each two values of two dimensions meet in a row, and rows are far fewer than all with all."""

from __future__ import annotations

import itertools
import random

import pytest

from sglang_platform.conformance.fixtures.pairwise import pairwise

_TABLES = {
    "one dimension of one value": {"a": [1], "b": [2]},
    "values that are equal": {"a": [{}, {}], "b": [None, ()], "c": [0, False]},
    "unlike sizes": {"a": range(9), "b": range(5), "c": "xyz", "d": (True, False), "e": [[]]},
}


@pytest.mark.parametrize("name", _TABLES)
@pytest.mark.parametrize("seed", range(3))
def test_each_two_values_of_two_dimensions_meet(name: str, seed: int) -> None:
    dimensions = {key: list(values) for key, values in _TABLES[name].items()}
    # Told apart by their place, since values may be equal and need no hash.
    placed = {key: list(enumerate(values)) for key, values in dimensions.items()}
    rows = list(pairwise(placed, random.Random(seed)))
    assert all(list(row) == list(dimensions) for row in rows)
    met = {
        ((one, row[one][0]), (other, row[other][0]))
        for row in rows
        for one, other in itertools.combinations(dimensions, 2)
    }
    assert met == {
        ((one, i), (other, j))
        for one, other in itertools.combinations(dimensions, 2)
        for i in range(len(dimensions[one]))
        for j in range(len(dimensions[other]))
    }
    sizes = sorted(map(len, dimensions.values()))
    assert len(rows) <= 1.4 * sizes[-1] * sizes[-2]
