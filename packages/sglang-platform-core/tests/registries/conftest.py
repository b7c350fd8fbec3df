"""Every test starts with empty registries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sglang_platform.core.registries import coordinators, events, models, pools, quant


@pytest.fixture(autouse=True)
def _empty_registries() -> Iterator[None]:
    def clear() -> None:
        for entries in (
            quant.wrappers,
            pools.kv_pool_factories,
            pools.host_pool_factories,
            coordinators.coordinators,
            models.architectures,
        ):
            entries.clear()
        coordinators.CREATED_BY.clear()
        events.reset()

    clear()
    yield
    clear()
