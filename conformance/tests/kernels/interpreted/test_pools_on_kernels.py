"""The pools of the package `KERNELS_OF` against core's own, which is held to independent oracles elsewhere: byte for
byte the same.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest
import torch

from sglang_platform.conformance.kernels.interpreter.arena import reachable
from sglang_platform.core.counters import counter
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.dsa import DSATokenToKVPool
from sglang_platform.core.memory.mha import MHATokenToKVPool
from sglang_platform.core.memory.mla import MLATokenToKVPool
from sglang_platform.core.portable.triton import pools

STORES, MOVES = counter("triton.kv_pool.stores"), counter("triton.kv_pool.moves")
PARTS = importlib.import_module(f"sglang_platform.{os.environ['KERNELS_OF']}.kv_pools")
FP8 = tuple(dtype for dtype in PARTS.STORED if "float8_e4m3" in str(dtype))


class Layer:
    def __init__(self, layer_id: int) -> None:
        self.layer_id = layer_id


def pair(kind: str, dtype: torch.dtype, **changes: Any) -> tuple[Any, Any]:
    """A Triton pool and core's pool, alike."""
    common = {
        "size": 24,
        "page_size": 4,
        "dtype": dtype,
        "layer_num": 3,
        "device": "cpu",
        "enable_memory_saver": False,
        "start_layer": 5,
    }
    if kind == "mha":
        keywords = {**common, "head_num": 2, "head_dim": 16, "v_head_dim": 8, **changes}
        return PARTS.POOLS["mha"](**keywords), MHATokenToKVPool(**keywords)
    latent = {**common, "kv_lora_rank": 128, "qk_rope_head_dim": 32, **changes}
    if kind == "mla":
        return PARTS.POOLS["mla"](**latent), MLATokenToKVPool(**latent)
    latent |= {"index_head_dim": 128, "kv_cache_dim": changes.get("kv_cache_dim", 160)}
    return PARTS.POOLS["dsa"](**latent), DSATokenToKVPool(**latent)


def buffers(pool: Any) -> list[torch.Tensor]:
    held = [*pool.k_buffer, *pool.v_buffer] if hasattr(pool, "k_buffer") else list(pool.kv_buffer)
    if hasattr(pool, "index_k_with_scale_buffer"):
        held += pool.index_k_with_scale_buffer
    return held


def assert_alike(pool: Any, plain: Any) -> None:
    for got, want in zip(buffers(pool), buffers(plain), strict=True):
        assert torch.equal(got.view(torch.uint8), want.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, *FP8], ids=str)
@pytest.mark.parametrize(
    "scales", [(None, None), (0.5, 4.0), (torch.tensor([2.0]), torch.tensor(0.25))], ids=str
)
def test_mha_store(dtype: torch.dtype, scales: tuple[Any, Any]) -> None:
    pool, plain = pair("mha", dtype)
    random = torch.Generator().manual_seed(1)
    loc = torch.tensor([27, 4, 9, 13])  # 27 is the last slot
    k = torch.randn((4, 2, 16), generator=random).bfloat16()
    v = torch.randn((4, 16), generator=random).bfloat16()  # rows may come flat
    before, stores = k.clone(), STORES.value
    for one in (pool, plain):
        one.set_kv_buffer(Layer(6), loc, k, v, *scales)
        one.set_kv_buffer(None, loc[:0], k[:0], v[:0], *scales, layer_id_override=7)
    assert STORES.value == stores + 2
    assert torch.equal(k, before), "the caller's keys are not to change"
    assert_alike(pool, plain)
    assert pool.get_key_buffer(6).dtype == dtype


def test_keys_in_the_pools_type_and_values_in_another() -> None:
    pool, plain = pair("mha", torch.float8_e4m3fn)
    k = torch.randn(2, 2, 16).to(torch.float8_e4m3fn)
    v = torch.randn(2, 2, 8)
    for one in (pool, plain):
        one.set_kv_buffer(Layer(5), torch.tensor([3, 8]), k, v, 2.0, 2.0)
    assert_alike(pool, plain)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_mla_store_in_one_piece_and_in_two(dtype: torch.dtype) -> None:
    pool, plain = pair("mla", dtype)
    rows = torch.randn(5, 1, 160).bfloat16()
    loc = torch.tensor([1, 27, 2, 20, 11], dtype=torch.int32)
    for one in (pool, plain):
        one.set_kv_buffer(Layer(5), loc, rows, None)
        one.set_mla_kv_buffer(Layer(7), loc.flip(0), rows[:, 0, :128], rows[:, 0, 128:])
    assert_alike(pool, plain)


@pytest.mark.parametrize("packed", [False, True], ids=["plain rows", "packed rows"])
def test_dsa_store(packed: bool) -> None:
    changes: dict[str, Any] = {"kv_cache_dim": 128 + 4 + 64} if packed else {}
    pool, plain = pair("dsa", torch.float8_e4m3fn, **changes)
    assert pool.dsa_kv_cache_store_fp8 is packed
    rows = torch.randn(3, 1, 160).bfloat16()
    keys, scales = torch.randn(3, 128).to(torch.float8_e4m3fn), torch.rand(3, 1)
    loc = torch.tensor([6, 27, 7])
    for one in (pool, plain):
        one.set_mla_kv_buffer(Layer(6), loc, rows[..., :128], rows[..., 128:])
        one.set_index_k_scale_buffer(6, loc, keys, scales)
    assert_alike(pool, plain)


@pytest.mark.parametrize("kind", ["mha", "mla", "dsa"])
def test_moves_of_all_layers(kind: str) -> None:
    pool, plain = pair(kind, torch.bfloat16)
    for got, want in zip(buffers(pool), buffers(plain), strict=True):
        noise = torch.randint(0, 255, got.view(torch.uint8).shape, dtype=torch.uint8)
        got.view(torch.uint8).copy_(noise)
        want.view(torch.uint8).copy_(noise)
    tgt, src = torch.tensor([8, 9, 10, 27]), torch.tensor([9, 10, 27, 8])  # a cycle
    moves = MOVES.value
    with reachable(*buffers(pool)):
        pool.move_kv_cache(tgt, src)
        plain.move_kv_cache(tgt, src)
        assert_alike(pool, plain)
    assert MOVES.value == moves + 1
    with pytest.raises(PlatformError, match="must have one to go to"):
        pool.move_kv_cache(tgt, src[:1])


@pytest.mark.parametrize("kind", ["mha", "mla", "dsa"])
def test_the_first_move_copies_no_table_to_the_device(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy from the host waits, and is illegal inside the capture of a graph."""
    pool, _ = pair(kind, torch.float16)
    monkeypatch.setattr(torch, "tensor", None)
    with reachable(*buffers(pool)):
        pool.move_kv_cache(torch.arange(4, 6), torch.arange(8, 10))


def test_a_table_follows_the_buffers() -> None:
    pool, plain = pair("mla", torch.float16)
    tgt, src = torch.tensor([3]), torch.tensor([4])
    with reachable(*buffers(pool)):
        pool.move_kv_cache(tgt, src)
    pool.kv_buffer = [torch.randn(28, 1, 160).half() for _ in range(3)]  # a host that backs the pool anew
    for mine, other in zip(plain.kv_buffer, pool.kv_buffer, strict=True):
        mine.copy_(other)
    with reachable(*buffers(pool)):
        pool.move_kv_cache(tgt, src)
    plain.move_kv_cache(tgt, src)
    assert_alike(pool, plain)


@pytest.mark.parametrize("kind", ["mha", "mla"])
def test_a_table_follows_one_buffer_put_in_anothers_place(kind: str) -> None:
    pool, plain = pair(kind, torch.float16)
    tgt, src = torch.tensor([3]), torch.tensor([4])
    for one in (pool, plain):
        held = one.v_buffer if kind == "mha" else one.kv_buffer
        held[1] = torch.ones_like(held[1])
        held[1][4] = 7.0
    with reachable(*buffers(pool)):
        pool.move_kv_cache(tgt, src)
    plain.move_kv_cache(tgt, src)
    assert_alike(pool, plain)


@pytest.mark.parametrize("kind", ["mha", "mla", "dsa"])
def test_a_move_asks_no_layer_for_its_address(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It happens after every verified draft: what it costs on the host must not grow with the layers."""
    asked: list[torch.Tensor] = []
    before_the_launch: list[list[torch.Tensor]] = []
    address, launch = torch.Tensor.data_ptr, pools.move

    def watched(*arguments: Any, **options: Any) -> None:
        before_the_launch.append(list(asked))
        launch(*arguments, **options)

    monkeypatch.setattr(torch.Tensor, "data_ptr", lambda self: asked.append(self) or address(self))
    monkeypatch.setattr(pools, "move", watched)
    pool, _ = pair(kind, torch.float16)
    with reachable(*buffers(pool)):
        assert asked, "the table of the move holds addresses"
        asked.clear()
        pool.move_kv_cache(torch.tensor([3]), torch.tensor([4]))
    assert before_the_launch == [[]]


def test_very_many_rows_take_the_copy_through_memory() -> None:
    pool, plain = pair("mha", torch.float16, size=1200)
    for got, want in zip(buffers(pool), buffers(plain), strict=True):
        got.copy_(torch.randn(got.shape))
        want.copy_(got)
    places = torch.randperm(1000)[:600]
    moves = MOVES.value
    pool.move_kv_cache(places, places.roll(1))
    plain.move_kv_cache(places, places.roll(1))
    assert_alike(pool, plain)
    assert MOVES.value == moves
