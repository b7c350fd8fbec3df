"""The MHA pool: sizes, overrides by a device, arguments that are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_parts import DTYPES, layer, mha, values

from sglang_platform.core import MHATokenToKVPool
from sglang_platform.core.errors import PlatformError


class TestOverrides:
    def test_a_device_can_replace_buffers_store_and_move(self) -> None:
        calls: list[Any] = []

        class Mine(MHATokenToKVPool):
            def _create_buffers(self) -> None:
                # Both in one allocation per layer.
                both = [torch.zeros(41, 2, 2, 8, dtype=self.store_dtype) for _ in range(self.layer_num)]
                self.k_buffer = [b[:, 0] for b in both]
                self.v_buffer = [b[:, 1] for b in both]

            def _store_kv_layer(self, layer_idx, loc, cache_k, cache_v) -> None:  # type: ignore[no-untyped-def]
                calls.append(
                    (layer_idx, loc.tolist(), cache_k.dtype, tuple(cache_k.shape), tuple(cache_v.shape))
                )
                super()._store_kv_layer(layer_idx, loc, cache_k, cache_v)

            def _move_kv_cache_impl(self, tgt_loc, src_loc) -> None:  # type: ignore[no-untyped-def]
                calls.append(("move", tgt_loc.tolist(), src_loc.tolist()))
                super()._move_kv_cache_impl(tgt_loc, src_loc)

        p = mha(kind=Mine, start_layer=3, dtype=torch.float8_e4m3fn)
        k = values(20, 16)
        p.set_kv_buffer(layer(4), torch.arange(20), k, k)
        p.set_kv_buffer(layer(4), torch.tensor([], dtype=torch.int64), k[:0], k[:0])
        p.move_kv_cache(torch.tensor([30]), torch.tensor([7]))
        assert calls == [
            (1, list(range(20)), torch.uint8, (20, 2, 8), (20, 2, 8)),
            ("move", [30], [7]),
        ]
        assert torch.equal(p.get_key_buffer(4)[30].float(), k[7].view(2, 8).to(torch.float8_e4m3fn).float())

    def test_a_mixin_before_the_pool(self) -> None:
        class Store:
            stored = 0

            def _store_kv_layer(self, *arguments: Any) -> None:
                self.stored += 1
                super()._store_kv_layer(*arguments)  # type: ignore[misc]

        p = mha(kind=type("Mine", (Store, MHATokenToKVPool), {}))
        p.set_kv_buffer(layer(0), torch.tensor([1]), values(1, 2, 8), values(1, 2, 8))
        assert p.stored == 1  # type: ignore[attr-defined]

    def test_buffers_that_were_forgotten_are_named(self) -> None:
        class Mine(MHATokenToKVPool):
            def _create_buffers(self) -> None:
                self.k_buffer = [torch.zeros(1)] * self.layer_num

        with pytest.raises(PlatformError, match="left v_buffer unusable"):
            mha(kind=Mine)

        class Short(MHATokenToKVPool):
            def _create_buffers(self) -> None:
                self.k_buffer = self.v_buffer = [torch.zeros(1)]

        with pytest.raises(PlatformError, match="one per layer, and is a list of 1"):
            mha(kind=Short)


class TestArguments:
    @pytest.mark.parametrize("name", ["size", "page_size", "head_num", "head_dim", "v_head_dim"])
    def test_sizes_under_one(self, name: str) -> None:
        for wrong in (0, -3):
            with pytest.raises(PlatformError, match=f"{name} is {wrong}"):
                mha(**{name: wrong})

    def test_others(self) -> None:
        with pytest.raises(PlatformError, match=r"dtype torch\.int32 is not supported"):
            mha(dtype=torch.int32)
        with pytest.raises(PlatformError, match="layer_num is -1"):
            mha(layer_num=-1)
        with pytest.raises(PlatformError, match="start_layer is -1"):
            mha(start_layer=-1)

    def test_other_keywords_of_sglangs_constructor_are_taken(self) -> None:
        assert mha(enable_alt_stream=False, quant_method=None).kv_cache_layout == "nhd"

    def test_rows_that_do_not_fit_the_slots(self) -> None:
        p = mha()
        for shape in ((3, 2, 8), (2, 2, 7), (2, 8), (4, 8)):
            with pytest.raises(PlatformError, match="cache_k of shape"):
                p.set_kv_buffer(layer(0), torch.tensor([1, 2]), torch.zeros(shape), torch.zeros(2, 2, 8))
        with pytest.raises(PlatformError, match="cache_v of shape"):
            p.set_kv_buffer(layer(0), torch.tensor([1, 2]), torch.zeros(2, 2, 8), torch.zeros(2, 2, 9))


class TestSizes:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_stated_bytes_are_what_is_allocated(self, dtype: torch.dtype) -> None:
        p = mha(dtype=dtype, v_head_dim=5)
        rows = 37 + 4
        per_value = torch.empty(0, dtype=dtype).element_size()
        assert p.get_kv_size_bytes() == (2 * rows * 2 * 8 * per_value, 2 * rows * 2 * 5 * per_value)
        storages = {
            b.untyped_storage().data_ptr(): b.untyped_storage().nbytes() for b in (*p.k_buffer, *p.v_buffer)
        }
        assert sum(storages.values()) == sum(p.get_kv_size_bytes())
        assert p.mem_usage == pytest.approx(sum(p.get_kv_size_bytes()) / 2**30)

    def test_what_a_transfer_engine_needs(self) -> None:
        p = mha(v_head_dim=5)
        addresses, lengths, items = p.get_contiguous_buf_infos()
        assert addresses == [b.data_ptr() for b in (*p.k_buffer, *p.v_buffer)]
        assert lengths == [41 * 16 * 4] * 2 + [41 * 10 * 4] * 2
        assert items == [4 * 16 * 4] * 2 + [4 * 10 * 4] * 2

    def test_window_sizes_replace_the_plain_ones(self) -> None:
        p = mha(v_head_dim=6, swa_head_num=3, swa_head_dim=4, swa_v_head_dim=5)
        assert p.get_kv_buffer_shape() == ((41, 3, 4), (41, 3, 5))
        assert mha(swa_head_dim=4).get_v_head_dim() == 8
