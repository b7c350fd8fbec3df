"""For all tests of the repository."""

from __future__ import annotations

import random
import sys

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that import SGLang into this process go last: from then on the process counts as a host."""
    items.sort(key=lambda item: item.get_closest_marker("host") is not None)


def pytest_runtest_setup() -> None:
    """A test draws the same numbers whichever tests ran before it in its process."""
    random.seed(0)
    if "torch" in sys.modules:  # imported later, it begins with a seed of its own, always the same
        sys.modules["torch"].manual_seed(0)
