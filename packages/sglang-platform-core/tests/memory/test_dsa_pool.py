"""The DSA pool: packed rows and the indexer's keys."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_parts import contents, ints, layer, values

from sglang_platform.core import DSATokenToKVPool
from sglang_platform.core.errors import PlatformError


def dsa(packed: bool = False, **changes: Any) -> DSATokenToKVPool:
    arguments: dict[str, Any] = {
        "size": 37,
        "page_size": 4,
        "kv_lora_rank": 256,
        "dtype": torch.float8_e4m3fn if packed else torch.bfloat16,
        "qk_rope_head_dim": 64,
        "layer_num": 2,
        "device": "cpu",
        "index_head_dim": 128,
        "enable_memory_saver": False,
        "kv_cache_dim": 256 + 8 + 128 if packed else 256 + 64,
    }
    return DSATokenToKVPool(**{**arguments, **changes})


class TestPackedRows:
    def test_a_row_is_656_bytes_for_deepseek(self) -> None:
        p = dsa(packed=True, kv_lora_rank=512, kv_cache_dim=656)
        assert p.kv_buffer[0].shape == (41, 1, 656)
        assert p.dsa_kv_cache_store_fp8

    @settings(max_examples=40, deadline=None)
    @given(st.floats(-6, 6), st.integers(1, 20))
    def test_every_tile_has_its_own_scale(self, exponent: float, n: int) -> None:
        p = dsa(packed=True)
        nope = values(n, 1, 256)
        nope[:, :, 128:] *= 10**exponent
        rope = values(n, 1, 64, seed=1)
        p.set_mla_kv_buffer(layer(1), torch.arange(1, n + 1), nope, rope)

        # The bytes, decoded by hand.
        for i in range(n):
            row = p.kv_buffer[1][i + 1, 0]
            for tile in range(2):
                scale = row[256 + 4 * tile : 260 + 4 * tile].view(torch.float32)
                part = nope[i, 0, 128 * tile : 128 * (tile + 1)]
                assert scale.item() == pytest.approx(part.abs().max().item() / 448, rel=1e-6)
                decoded = row[128 * tile : 128 * (tile + 1)].view(torch.float8_e4m3fn).float() * scale
                # e4m3 has 3 fraction bits: half a step is 1/16; below 2^-6 steps are 2^-9.
                assert ((decoded - part).abs() <= part.abs() / 16 + scale * 2**-10).all()
            assert torch.equal(row[264:].view(torch.bfloat16), rope[i, 0].bfloat16())

        got, got_rope = p.get_mla_kv_buffer(layer(1), torch.arange(1, n + 1), torch.float32)
        assert (got - nope).abs().max() <= nope.abs().max() / 16
        assert torch.equal(got_rope, rope.bfloat16().float())

    def test_zeros_stay_zeros(self) -> None:
        p = dsa(packed=True)
        p.set_mla_kv_buffer(layer(0), ints(1), torch.zeros(1, 256), torch.zeros(1, 64))
        assert p.get_mla_kv_buffer(layer(0), ints(1), torch.float32)[0].count_nonzero() == 0

    def test_whole_rows_and_rows_without_a_rotated_part(self) -> None:
        p = dsa(packed=True)
        row = values(2, 1, 320)
        p.set_kv_buffer(layer(0), ints(1, 2), row, None)
        p.set_mla_kv_buffer(layer(0), ints(3, 4), row[..., :256], row[..., 256:])
        assert torch.equal(p.kv_buffer[0][[1, 2]], p.kv_buffer[0][[3, 4]])
        bare = dsa(packed=True, qk_rope_head_dim=0, kv_cache_dim=264)
        bare.set_mla_kv_buffer(layer(0), ints(1), row[:1, :, :256], None)
        nope, rope = bare.get_mla_kv_buffer(layer(0), ints(1), torch.float32)
        assert rope is None
        assert torch.equal(nope, p.get_mla_kv_buffer(layer(0), ints(1), torch.float32)[0])


def stored_key(pool: DSATokenToKVPool, layer_idx: int, slot: int) -> tuple[bytes, float]:
    """Key bytes and scale of a slot, from the layout in words: all keys of the page, then all scales."""
    size = pool.page_size
    page = pool.index_k_with_scale_buffer[layer_idx][slot // size]
    at = slot % size
    scales = page[size * 128 :].view(torch.float32)
    return bytes(page[at * 128 : (at + 1) * 128].tolist()), scales[at].item()


class TestIndexerKeys:
    @pytest.mark.parametrize("page_size", [1, 4, 64])
    @settings(max_examples=20, deadline=None)
    @given(data=st.data())
    def test_only_the_named_slots_change(self, page_size: int, data: st.DataObject) -> None:
        p = dsa(page_size=page_size, start_layer=2)
        last = 37 + page_size - 1
        slots = data.draw(st.lists(st.integers(0, last), unique=True, max_size=20))
        everything = torch.arange(last + 1)
        old = values(last + 1, 128, seed=5).to(torch.float8_e4m3fn)
        p.set_index_k_scale_buffer(3, everything, old, torch.arange(last + 1.0))
        keys, scales = values(len(slots), 128).to(torch.float8_e4m3fn), values(len(slots), 1, seed=1)
        p.set_index_k_scale_buffer(3, ints(*slots), keys, scales)
        for slot in range(last + 1):
            key, scale = stored_key(p, 1, slot)
            if slot in slots:
                row = slots.index(slot)
                assert key == bytes(keys[row].view(torch.uint8).tolist())
                assert scale == scales[row].item()
            else:
                assert key == bytes(old[slot].view(torch.uint8).tolist())
                assert scale == slot
        assert p.get_index_k_with_scale_buffer(2).count_nonzero() == 0

    def test_a_batch_is_read_request_after_request(self) -> None:
        p = dsa()
        keys = values(41, 128).to(torch.float8_e4m3fn)
        p.set_index_k_scale_buffer(0, torch.arange(41), keys, torch.arange(41.0))
        pages = torch.tensor([[3, 1, 0], [0, 0, 0], [2, 9, 4]])
        lens = [7, 0, 9]
        slots = [12, 13, 14, 15, 4, 5, 6, 8, 9, 10, 11, 36, 37, 38, 39, 16]
        k, s = p.get_index_k_scale_buffer(0, ints(*lens), pages, 16, 9)
        assert torch.equal(k, keys[slots].view(torch.uint8))
        assert s.view(torch.float32)[:, 0].tolist() == slots
        assert torch.equal(p.get_index_k_continuous(0, 9, pages[2]), k[7:])
        assert torch.equal(p.get_index_k_scale_continuous(0, 9, pages[2]), s[7:])

    def test_moves_and_copies_take_the_keys_along(self) -> None:
        for packed in (False, True):
            p = dsa(packed=packed)
            for i in range(2):
                p.set_index_k_scale_buffer(
                    i, torch.arange(41), values(41, 128, seed=i).to(torch.float8_e4m3fn), torch.arange(41.0)
                )
                p.set_kv_buffer(layer(i), torch.arange(41), values(41, 320, seed=i), None)
            rows = contents(*p.kv_buffer)
            before = [[stored_key(p, i, slot) for slot in range(41)] for i in range(2)]
            p.move_kv_cache(torch.arange(5, 30), torch.arange(4, 29))
            saved = p.get_cpu_copy(ints(2, 40, 7))
            p.load_cpu_copy(saved, ints(33, 34, 35))
            for i in range(2):
                after = [stored_key(p, i, slot) for slot in range(41)]
                assert after[5:30] == before[i][4:29]
                assert after[:5] == before[i][:5]
                assert after[33:36] == [before[i][2], before[i][40], before[i][6]]
                assert after[30:33] == before[i][30:33]
                assert torch.equal(contents(*p.kv_buffer)[i][33:36], rows[i][[2, 40, 6]])

    def test_layers_that_take_over_a_selection_keep_no_keys(self) -> None:
        p = dsa(skip_topk_layers=[False, True])
        assert [b.shape[0] for b in p.index_k_with_scale_buffer] == [11, 0]
        with pytest.raises(PlatformError, match="layer 1 keeps no indexer keys"):
            p.set_index_k_scale_buffer(1, ints(1), values(1, 128).to(torch.float8_e4m3fn), torch.ones(1))
        p.move_kv_cache(ints(1), ints(2))
        p.load_cpu_copy(p.get_cpu_copy(ints(1)), ints(2))
        _, lengths, items = p.get_state_buf_infos()
        assert lengths == [11 * 4 * 132, 0]
        assert items == [4 * 132, 0]

    def test_the_size_counts_rows_and_keys(self) -> None:
        p = dsa()
        buffers = [*p.kv_buffer, *p.index_k_with_scale_buffer]
        assert p.get_kv_size_bytes() == sum(b.untyped_storage().nbytes() for b in buffers)
        assert p.mem_usage == pytest.approx(p.get_kv_size_bytes() / 2**30)

    def test_arguments(self) -> None:
        with pytest.raises(PlatformError, match="index_head_dim is 96"):
            dsa(index_head_dim=96)
        with pytest.raises(PlatformError, match="index_k of shape"):
            dsa().set_index_k_scale_buffer(0, ints(1, 2), values(1, 128), torch.ones(2))
        with pytest.raises(PlatformError, match="index_k_scale of shape"):
            dsa().set_index_k_scale_buffer(0, ints(1), values(1, 128), torch.ones(2))
