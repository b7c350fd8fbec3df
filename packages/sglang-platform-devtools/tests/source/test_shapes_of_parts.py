"""A part's misspelt override is found in its source, and a helper that its methods use is not one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.core.contract.parts import MisspeltOverride
from sglang_platform.devtools.doctor.class_shape import ShapeBuilder
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.lookup import Lookup

POOLS = """
from sglang_platform.core.memory.mha import MHATokenToKVPool

class Rows:
    def _store_kv_layers(self, layer_idx, loc, cache_k, cache_v):
        self.k_buffer[layer_idx][loc] = cache_k

class Misspelt(Rows, MHATokenToKVPool):
    pass

class Inherits(Misspelt):
    pass

class WithHelper(MHATokenToKVPool):
    def get_key_buffers(self):
        return self.k_buffer

    def warm_up(self):
        return self.get_key_buffers()

class Right(MHATokenToKVPool):
    def _store_kv_layer(self, layer_idx, loc, cache_k, cache_v):
        self._store_kv_layer_fast(layer_idx, loc, cache_k, cache_v)

    def _store_kv_layer_fast(self, layer_idx, loc, cache_k, cache_v):
        self.k_buffer[layer_idx][loc] = cache_k
"""


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShapeBuilder:
    (tmp_path / "misspelt_pools.py").write_text(POOLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return ShapeBuilder(Lookup(Environment()))


@pytest.mark.parametrize("name", ["Misspelt", "Inherits"])
def test_a_misspelt_store_is_found_in_the_source(builder: ShapeBuilder, name: str) -> None:
    with pytest.raises(MisspeltOverride) as refused:
        builder.build("misspelt_pools", name)
    assert "misspelt_pools.Misspelt " in refused.value.what
    assert "did you mean _store_kv_layer? (" in str(refused.value.why)
    assert "misspelt_pools.py:5" in str(refused.value.why)


@pytest.mark.parametrize("name", ["WithHelper", "Right"])
def test_a_helper_that_methods_use_is_free(builder: ShapeBuilder, name: str) -> None:
    assert builder.build("misspelt_pools", name).cls.__name__ == name
