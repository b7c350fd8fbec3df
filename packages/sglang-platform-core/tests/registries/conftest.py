"""Every test starts with empty registries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sglang_platform.core.registries import coordinators, events
from sglang_platform.core.registries.registry import registries


@pytest.fixture(autouse=True)
def _empty_registries() -> Iterator[None]:
    def clear() -> None:
        for registry in registries():
            registry.clear()
        coordinators.CREATED_BY.clear()
        events.reset()

    clear()
    yield
    clear()
