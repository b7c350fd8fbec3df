"""For all tests of the repository."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that import SGLang into this process go last: from then on the process counts as a host."""
    items.sort(key=lambda item: item.get_closest_marker("host") is not None)
