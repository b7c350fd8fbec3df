"""The MLA pool."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_parts import contents, ints, layer, values

from sglang_platform.core import MLATokenToKVPool
from sglang_platform.core.errors import PlatformError

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


def mla(**changes: Any) -> MLATokenToKVPool:
    arguments: dict[str, Any] = {
        "size": 37,
        "page_size": 4,
        "dtype": torch.float32,
        "kv_lora_rank": 12,
        "qk_rope_head_dim": 4,
        "layer_num": 2,
        "device": "cpu",
        "enable_memory_saver": False,
    }
    kind = changes.pop("kind", MLATokenToKVPool)
    return kind(**{**arguments, **changes})


class TestMLA:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @settings(max_examples=15, deadline=None)
    @given(slots=st.lists(st.integers(0, 40), unique=True, max_size=41), whole=st.booleans())
    def test_only_the_named_slots_change(self, dtype: torch.dtype, slots: list[int], whole: bool) -> None:
        p = mla(dtype=dtype, start_layer=3)
        for i in (3, 4):
            p.set_kv_buffer(layer(i), torch.arange(41), values(41, 1, 16, seed=i), None)
        expected = contents(*p.kv_buffer)
        row = values(len(slots), 1, 16)
        if whole:
            p.set_kv_buffer(layer(4), ints(*slots), row, None)
        else:
            p.set_mla_kv_buffer(layer(4), ints(*slots), row[..., :12], row[:, 0, 12:])
        for i, slot in enumerate(slots):
            expected[1][slot] = row[i].to(dtype).view(torch.uint8).reshape(-1)
        for got, want in zip(contents(*p.kv_buffer), expected, strict=True):
            assert torch.equal(got, want)

    def test_values_are_the_latent_part_of_the_keys(self) -> None:
        p = mla(dtype=torch.float8_e4m3fn)
        p.set_kv_buffer(layer(1), ints(7), values(1, 16), None)
        key, value = p.get_kv_buffer(1)
        assert key.shape == (41, 1, 16)
        assert value.shape == (41, 1, 12)
        assert p.get_kv_buffer_shape() == (key.shape, value.shape)
        assert value.data_ptr() == key.data_ptr()
        assert torch.equal(value.float(), key.float()[..., :12])

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_rows_are_read_back_in_parts(self, dtype: torch.dtype) -> None:
        p = mla(dtype=dtype)
        row = values(3, 1, 16)
        p.set_kv_buffer(layer(0), ints(4, 9, 2), row, None)
        nope, rope = p.get_mla_kv_buffer(layer(0), ints(2, 4, 9), torch.float32)
        stored = row.to(dtype).float()[[2, 0, 1]]
        assert torch.equal(nope, stored[..., :12])
        assert torch.equal(rope, stored[..., 12:])
        assert p.get_mla_kv_buffer(layer(0), ints(2))[0].dtype == dtype

    def test_a_model_without_a_rotated_part(self) -> None:
        p = mla(qk_rope_head_dim=0)
        nope = values(2, 1, 12)
        p.set_mla_kv_buffer(layer(0), ints(3, 4), nope, None)
        got, rope = p.get_mla_kv_buffer(layer(0), ints(3, 4))
        assert torch.equal(got, nope)
        assert rope is None

    def test_overlapping_moves(self) -> None:
        p = mla()
        p.set_kv_buffer(layer(1), torch.arange(41), values(41, 16), None)
        before = p.kv_buffer[1].clone()
        p.move_kv_cache(torch.arange(5, 30), torch.arange(4, 29))
        assert torch.equal(p.kv_buffer[1][5:30], before[4:29])
        assert torch.equal(p.kv_buffer[1][:5], before[:5])
        assert torch.equal(p.kv_buffer[1][30:], before[30:])

    def test_copies_and_sizes(self) -> None:
        p = mla(dtype=torch.bfloat16)
        p.set_kv_buffer(layer(1), ints(5, 6), values(2, 16), None)
        before = p.kv_buffer[1].clone()
        saved = p.get_cpu_copy(ints(6, 5))
        p.kv_buffer[1].zero_()
        p.load_cpu_copy(saved, ints(20, 21))
        assert torch.equal(p.kv_buffer[1][[20, 21]], before[[6, 5]])
        assert (
            p.get_kv_size_bytes() == sum(b.untyped_storage().nbytes() for b in p.kv_buffer) == 2 * 41 * 16 * 2
        )
        assert p.get_contiguous_buf_infos() == (
            [b.data_ptr() for b in p.kv_buffer],
            [41 * 16 * 2] * 2,
            [4 * 16 * 2] * 2,
        )

    def test_both_ways_to_write_reach_the_device_s_kernel(self) -> None:
        calls: list[Any] = []

        class Mine(MLATokenToKVPool):
            def _scatter_mla_rows(self, dst_buffer, loc, cache_k_nope, cache_k_rope) -> None:  # type: ignore[no-untyped-def]
                calls.append(
                    (loc.tolist(), cache_k_nope.dtype, tuple(cache_k_nope.shape), tuple(cache_k_rope.shape))
                )
                super()._scatter_mla_rows(dst_buffer, loc, cache_k_nope, cache_k_rope)

        p = mla(kind=Mine, dtype=torch.float8_e4m3fn)
        row = values(1, 1, 16)
        p.set_kv_buffer(layer(0), ints(3), row, None)
        p.set_mla_kv_buffer(layer(0), ints(4), row[..., :12], row[..., 12:])
        p.set_kv_buffer(layer(0), ints(), row[:0], None)
        assert calls == [([3], torch.uint8, (1, 1, 12), (1, 1, 4)), ([4], torch.uint8, (1, 1, 12), (1, 1, 4))]
        assert torch.equal(p.kv_buffer[0][3], p.kv_buffer[0][4])

    def test_arguments(self) -> None:
        with pytest.raises(PlatformError, match="kv_lora_rank is 0"):
            mla(kv_lora_rank=0)
        with pytest.raises(PlatformError, match="qk_rope_head_dim is -1"):
            mla(qk_rope_head_dim=-1)
        p = mla(start_layer=3)
        with pytest.raises(PlatformError, match="layer 2 is not in"):
            p.set_kv_buffer(layer(2), ints(1), values(1, 16), None)
        with pytest.raises(PlatformError, match="cache_k of shape"):
            p.set_kv_buffer(layer(3), ints(1), values(1, 15), None)
        with pytest.raises(PlatformError, match="cache_k_rope of shape"):
            p.set_mla_kv_buffer(layer(3), ints(1), values(1, 12), None)
