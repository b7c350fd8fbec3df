"""Names of a vendor's part that are nearly names of its base class are refused when the class is created."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from sglang_platform.core.attention.backend import AttentionBackend
from sglang_platform.core.distributed.communicator import DeviceCommunicator
from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator
from sglang_platform.core.errors import ContractError
from sglang_platform.core.graph.full import FullGraphBackend
from sglang_platform.core.graph.runner import GraphRunner
from sglang_platform.core.memory.allocator import TokenToKVPoolAllocator
from sglang_platform.core.memory.dsa import DSATokenToKVPool
from sglang_platform.core.memory.mha import MHATokenToKVPool
from sglang_platform.core.memory.mla import MLATokenToKVPool
from sglang_platform.core.memory.paged import PagedTokenToKVPoolAllocator
from sglang_platform.core.memory.req_to_token import ReqToTokenPool

MISSPELT: tuple[tuple[type, str, str], ...] = (
    (MHATokenToKVPool, "_store_kv_layers", "_store_kv_layer"),
    (MHATokenToKVPool, "store_kv_layer", "_store_kv_layer"),
    (MHATokenToKVPool, "_store_layer_kv", "_store_kv_layer"),
    (MHATokenToKVPool, "_create_buffer", "_create_buffers"),
    (MHATokenToKVPool, "get_kv_size_byte", "get_kv_size_bytes"),
    (MHATokenToKVPool, "_move_kv_cache_imp", "_move_kv_cache_impl"),
    (MHATokenToKVPool, "supported_dtype", "supported_dtypes"),
    (MLATokenToKVPool, "_scatter_mla_row", "_scatter_mla_rows"),
    (DSATokenToKVPool, "_create_index_keys_cache", "_create_index_key_cache"),
    (PagedTokenToKVPoolAllocator, "alloc_extends", "alloc_extend"),
    (PagedTokenToKVPoolAllocator, "decode_alloc", "alloc_decode"),
    (TokenToKVPoolAllocator, "frees", "free"),
    (ReqToTokenPool, "available_sizes", "available_size"),
    (AttentionBackend, "foward_decode", "forward_decode"),
    (AttentionBackend, "init_forward_metadata_outgraph", "init_forward_metadata_out_graph"),
    (GraphRunner, "can_run_graphs", "can_run_graph"),
    (GraphRunner, "_batch_size", "_batch_sizes"),
    (FullGraphBackend, "capture_ones", "capture_one"),
    (DeviceCommunicator, "disable", "disabled"),
    (TorchGroupCommunicator, "all_gather_into_tensors", "all_gather_into_tensor"),
)


def method(self: Any, *args: Any) -> None:
    """A method that names nothing."""


def calls(name: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(f"def run(self): return self.{name}()", scope)
    function = scope["run"]
    assert isinstance(function, FunctionType)
    return function


def made(base: type, mixin: bool = False, **names: Any) -> type:
    if mixin:
        return type(
            "Vendors", (type("Mixin", (), {**names, "__module__": "vendor"}), base), {"__module__": "vendor"}
        )
    return type("Vendors", (base,), {**names, "__module__": "vendor"})


@pytest.mark.parametrize("mixin", [False, True])
@pytest.mark.parametrize(("base", "name", "meant"), MISSPELT)
def test_a_misspelt_override_is_refused_with_the_nearest_name(
    base: type, name: str, meant: str, mixin: bool
) -> None:
    with pytest.raises(ContractError) as refused:
        made(base, mixin, **{name: method})
    assert f".{name}: nothing calls it, did you mean {meant}?" in str(refused.value)
    assert "test_part_names.py" in str(refused.value)


def test_all_of_them_are_told_at_once() -> None:
    with pytest.raises(ContractError) as refused:
        made(MHATokenToKVPool, _store_kv_layers=method, _create_buffer=method)
    assert str(refused.value).count("did you mean") == 2


@pytest.mark.parametrize(
    ("base", "name"),
    [
        (MHATokenToKVPool, "_store_kv_layer_fast"),
        (MHATokenToKVPool, "_store_kv_rows"),
        (MHATokenToKVPool, "_get_key_buffer"),
        (MHATokenToKVPool, "_stream"),
        (PagedTokenToKVPoolAllocator, "tree"),
        (PagedTokenToKVPoolAllocator, "_alloc_extend"),
        (AttentionBackend, "init_npu_graph_state"),
        (AttentionBackend, "_forward_decode"),
        (DeviceCommunicator, "sent"),
        (GraphRunner, "replayed"),
    ],
)
def test_names_of_a_vendors_own_are_free(base: type, name: str) -> None:
    made(base, **{name: method})
    made(base, mixin=True, **{name: method})


def test_a_name_that_the_vendors_methods_use_is_free() -> None:
    made(MHATokenToKVPool, get_key_buffers=method, _warm_up=calls("get_key_buffers"))
    made(MHATokenToKVPool, get_key_buffers=property(method), _warm_up=property(calls("get_key_buffers")))


def test_a_name_beside_the_override_itself_is_free() -> None:
    made(MHATokenToKVPool, _store_kv_layers=method, _store_kv_layer=method)


def test_a_listed_name_is_free() -> None:
    made(MHATokenToKVPool, get_key_buffers=method, extra_public_names=frozenset({"get_key_buffers"}))


def test_a_misspelt_name_that_calls_itself_is_refused() -> None:
    with pytest.raises(ContractError):
        made(MHATokenToKVPool, _store_kv_layers=calls("_store_kv_layers"))


@pytest.mark.host
def test_every_name_of_sglangs_own_class_may_be_overridden() -> None:
    from sglang.srt.distributed.parallel_state import GroupCoordinator
    from sglang.srt.layers.attention.base_attn_backend import AttentionBackend as HostBackend
    from sglang.srt.mem_cache import allocator, memory_pool

    pairs = [
        (MHATokenToKVPool, memory_pool.MHATokenToKVPool),
        (MLATokenToKVPool, memory_pool.MLATokenToKVPool),
        (DSATokenToKVPool, memory_pool.DSATokenToKVPool),
        (ReqToTokenPool, memory_pool.ReqToTokenPool),
        (TokenToKVPoolAllocator, allocator.TokenToKVPoolAllocator),
        (PagedTokenToKVPoolAllocator, allocator.PagedTokenToKVPoolAllocator),
        (AttentionBackend, HostBackend),
        (TorchGroupCommunicator, GroupCoordinator),
    ]
    for base, hosts in pairs:
        for name in {one for klass in hosts.__mro__ for one in vars(klass) if not one.startswith("__")}:
            made(base, **{name: method})
