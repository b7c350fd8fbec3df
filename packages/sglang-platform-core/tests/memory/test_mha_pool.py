"""The MHA pool: what is stored is read back, and nothing else changes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_parts import DTYPES, FP8, contents, layer, mha, values

from sglang_platform.core.errors import PlatformError


class TestStoreAndReadBack:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize(("heads", "dim", "v_dim"), [(1, 1, 1), (2, 8, 8), (3, 7, 5), (8, 128, 64)])
    @settings(max_examples=15, deadline=None)
    @given(slots=st.lists(st.integers(0, 40), unique=True, max_size=41), int32=st.booleans())
    def test_only_the_named_slots_change(
        self, dtype: torch.dtype, heads: int, dim: int, v_dim: int, slots: list[int], int32: bool
    ) -> None:
        p = mha(dtype=dtype, head_num=heads, head_dim=dim, v_head_dim=v_dim)
        everywhere = torch.arange(41)
        for i in range(2):
            old = [values(41, heads, d, seed=10 + i) for d in (dim, v_dim)]
            p.set_kv_buffer(layer(i), everywhere, *old)
        before = contents(*p.k_buffer, *p.v_buffer)
        k, v = values(len(slots), heads, dim), values(len(slots), heads, v_dim, seed=1)
        p.set_kv_buffer(layer(1), torch.tensor(slots, dtype=torch.int32 if int32 else torch.int64), k, v)

        expected = [b.clone() for b in before]
        for row, slot in enumerate(slots):
            expected[1][slot] = k[row].to(dtype).view(torch.uint8).reshape(-1)
            expected[3][slot] = v[row].to(dtype).view(torch.uint8).reshape(-1)
        for got, want in zip(contents(*p.k_buffer, *p.v_buffer), expected, strict=True):
            assert torch.equal(got, want)
        if slots:
            at = torch.tensor(slots)
            assert p.get_key_buffer(1).dtype == dtype
            assert torch.equal(p.get_key_buffer(1).float()[at], k.to(dtype).float())
            assert torch.equal(p.get_value_buffer(1).float()[at], v.to(dtype).float())

    @pytest.mark.parametrize("n", [1, 3, 15, 16, 17, 37])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn], ids=str)
    def test_strided_input_and_rows_in_one_dimension(self, n: int, dtype: torch.dtype) -> None:
        p = mha(dtype=dtype)
        # A fused projection: keys and values side by side, at odd offsets.
        qkv = values(n, 3 + 16 + 16 + 2).to(torch.bfloat16)
        k, v = qkv[:, 3:19], qkv[:, 19:35]
        p.set_kv_buffer(layer(0), torch.arange(1, n + 1), k, v.view(n, 2, 8))
        key, value = p.get_kv_buffer(0)
        assert torch.equal(key[1 : n + 1].float(), k.to(dtype).float().reshape(n, 2, 8))
        assert torch.equal(value[1 : n + 1].float(), v.to(dtype).float().reshape(n, 2, 8))
        transposed = values(2, n, 8).to(dtype)
        p.set_kv_buffer(layer(1), torch.arange(n), transposed.transpose(0, 1), transposed.transpose(0, 1))
        assert torch.equal(p.get_key_buffer(1)[:n].float(), transposed.transpose(0, 1).float())

    def test_a_slice_that_begins_at_an_odd_byte(self) -> None:
        p = mha(dtype=torch.float8_e4m3fn)
        raw = values(20 * 16 + 1).to(torch.float8_e4m3fn)
        k = raw[1:].view(20, 2, 8)
        p.set_kv_buffer(layer(0), torch.arange(20), k, k)
        assert torch.equal(p.get_key_buffer(0)[:20].float(), k.float())

    def test_the_padding_slot_and_the_last_slot_can_be_written(self) -> None:
        p = mha()
        k = values(2, 2, 8)
        p.set_kv_buffer(layer(0), torch.tensor([0, 40]), k, k)
        assert torch.equal(p.get_key_buffer(0)[[0, 40]], k)

    @pytest.mark.parametrize("n", [1, 20])
    def test_slots_outside_the_pool_are_refused_on_the_cpu(self, n: int) -> None:
        p = mha()
        for wrong in (41, -1):
            loc = torch.arange(n)
            loc[-1] = wrong
            with pytest.raises((IndexError, RuntimeError)):
                p.set_kv_buffer(layer(0), loc, values(n, 2, 8), values(n, 2, 8))


class TestScales:
    @pytest.mark.parametrize("dtype", FP8, ids=str)
    @pytest.mark.parametrize("as_tensor", [False, True])
    def test_values_are_divided_by_the_scale(self, dtype: torch.dtype, as_tensor: bool) -> None:
        p = mha(dtype=dtype)
        k, v = values(5, 2, 8), values(5, 2, 8, seed=1)
        scales = [torch.tensor([s]) if as_tensor else s for s in (0.25, 4.0)]
        kept = k.clone()
        p.set_kv_buffer(layer(0), torch.arange(5), k, v, *scales)
        assert torch.equal(k, kept), "the caller's tensor was changed"
        assert torch.equal(p.get_key_buffer(0)[:5].float(), (k / 0.25).to(dtype).float())
        assert torch.equal(p.get_value_buffer(0)[:5].float(), (v / 4.0).to(dtype).float())

    @pytest.mark.parametrize("dtype", FP8, ids=str)
    def test_what_is_too_large_saturates_and_nan_stays(self, dtype: torch.dtype) -> None:
        p = mha(dtype=dtype)
        k = torch.zeros(1, 2, 8)
        k[0, 0, :4] = torch.tensor([1e6, -1e6, float("inf"), float("nan")])
        p.set_kv_buffer(layer(0), torch.tensor([1]), k, k)
        got = p.get_key_buffer(0)[1, 0, :4].float()
        largest = torch.finfo(dtype).max
        assert got[:3].tolist() == [largest, -largest, largest]
        assert got[3].isnan()

    def test_rows_of_the_pool_s_dtype_are_not_scaled_again(self) -> None:
        p = mha(dtype=torch.float8_e4m3fn)
        k = values(3, 2, 8).to(torch.float8_e4m3fn)
        p.set_kv_buffer(layer(0), torch.arange(3), k, k, 2.0, 2.0)
        assert torch.equal(p.get_key_buffer(0)[:3].float(), k.float())

    def test_fp8_rows_of_another_kind_are_converted(self) -> None:
        p = mha(dtype=torch.float8_e4m3fn)
        k = values(3, 2, 8).to(torch.float8_e5m2)
        p.set_kv_buffer(layer(0), torch.arange(3), k, k, 2.0, None)
        assert torch.equal(p.get_key_buffer(0)[:3].float(), (k.float() / 2).to(torch.float8_e4m3fn).float())


class TestLayers:
    def test_layers_count_through_the_whole_model(self) -> None:
        p = mha(start_layer=5, end_layer=7)
        k = values(1, 2, 8)
        p.set_kv_buffer(layer(6), torch.tensor([3]), k, k)
        assert torch.equal(p.k_buffer[1][3], k[0])
        assert torch.equal(p.get_key_buffer(6)[3], k[0])
        assert p.get_key_buffer(5).count_nonzero() == 0
        assert p.model_layer_ids == (5, 6)
        assert (p.start_layer, p.end_layer) == (5, 7)

    def test_the_override_names_the_layer(self) -> None:
        p = mha(start_layer=5)
        k = values(1, 2, 8)
        p.set_kv_buffer(layer(99), torch.tensor([3]), k, k, layer_id_override=5)
        assert torch.equal(p.get_key_buffer(5)[3], k[0])

    @pytest.mark.parametrize("wrong", [4, 7, -1, 0])
    def test_a_layer_of_another_stage_is_refused(self, wrong: int) -> None:
        p = mha(start_layer=5)
        k = values(1, 2, 8)
        with pytest.raises(PlatformError, match=f"layer {wrong} is not in"):
            p.set_kv_buffer(layer(wrong), torch.tensor([3]), k, k)
        with pytest.raises(PlatformError, match="holds layers 5 to 6"):
            p.get_key_buffer(wrong)

    def test_readers_wait_for_a_layer_that_is_being_loaded(self) -> None:
        waited: list[int] = []
        p = mha(start_layer=5)
        p.register_layer_transfer_counter(SimpleNamespace(wait_until=waited.append))
        p.get_key_buffer(6)
        p.get_value_buffer(5)
        assert waited == [1, 0]

    def test_a_pool_without_layers(self) -> None:
        p = mha(layer_num=0)
        p.move_kv_cache(torch.tensor([1]), torch.tensor([2]))
        assert p.get_kv_size_bytes() == (0, 0)


class TestMove:
    @settings(max_examples=60, deadline=None)
    @given(data=st.data(), dtype=st.sampled_from(DTYPES))
    def test_as_if_all_rows_were_read_first(self, data: st.DataObject, dtype: torch.dtype) -> None:
        p = mha(dtype=dtype)
        for i in range(2):
            p.set_kv_buffer(
                layer(i), torch.arange(41), values(41, 2, 8, seed=i), values(41, 2, 8, seed=9 + i)
            )
        target = data.draw(st.lists(st.integers(0, 40), unique=True))
        source = data.draw(st.lists(st.integers(0, 40), min_size=len(target), max_size=len(target)))
        expected = contents(*p.k_buffer, *p.v_buffer)
        for b in expected:
            b[target] = b.clone()[source]
        p.move_kv_cache(torch.tensor(target, dtype=torch.int64), torch.tensor(source, dtype=torch.int64))
        for got, want in zip(contents(*p.k_buffer, *p.v_buffer), expected, strict=True):
            assert torch.equal(got, want)

    def test_lengths_must_agree(self) -> None:
        with pytest.raises(PlatformError, match="from 1 to 2 slots"):
            mha().move_kv_cache(torch.tensor([1, 2]), torch.tensor([3]))


class TestCpuCopies:
    @pytest.mark.parametrize("chunk", [3, 8192])
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
    def test_a_request_comes_back_in_other_slots(self, chunk: int, dtype: torch.dtype) -> None:
        p = mha(dtype=dtype)
        p.cpu_offloading_chunk_size = chunk
        for i in range(2):
            p.set_kv_buffer(
                layer(i), torch.arange(41), values(41, 2, 8, seed=i), values(41, 2, 8, seed=9 + i)
            )
        before = contents(*p.k_buffer, *p.v_buffer)
        old, new = torch.tensor([5, 30, 2, 8]), torch.tensor([9, 1, 20, 21])
        saved = p.get_cpu_copy(old)
        for b in (*p.k_buffer, *p.v_buffer):
            b[old] = 0
        p.load_cpu_copy(saved, new)
        for got, was in zip(contents(*p.k_buffer, *p.v_buffer), before, strict=True):
            assert torch.equal(got[new], was[old])
            assert torch.equal(got[22:30], was[22:30])

    def test_nothing_and_too_little(self) -> None:
        p = mha()
        p.load_cpu_copy(
            p.get_cpu_copy(torch.tensor([], dtype=torch.int64)), torch.tensor([], dtype=torch.int64)
        )
        with pytest.raises(PlatformError, match="3 slots cannot be loaded into 2"):
            p.load_cpu_copy(p.get_cpu_copy(torch.tensor([1, 2, 3])), torch.tensor([1, 2]))
