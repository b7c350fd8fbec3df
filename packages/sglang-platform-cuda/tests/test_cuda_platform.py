from types import SimpleNamespace

import pytest
import torch

from sglang_platform.core import (
    AttentionBackend,
    DSATokenToKVPool,
    GraphRunner,
    MHATokenToKVPool,
    MLATokenToKVPool,
    PagedTokenToKVPoolAllocator,
)
from sglang_platform.core.contract import DeviceMixin, MMPlatform, SRTPlatform
from sglang_platform.core.contract.capabilities import PlatformCapabilities
from sglang_platform.core.distributed.communicator import DeviceCommunicator
from sglang_platform.core.host import PoolAsked
from sglang_platform.core.portable import parts
from sglang_platform.cuda import ops, probe
from sglang_platform.cuda.device import CudaDeviceMixin
from sglang_platform.cuda.kv_pools import POOLS, STORED
from sglang_platform.cuda.platform import EIGHT_BIT, CudaMMPlatform, CudaSRTPlatform


@pytest.mark.parametrize("cls", [CudaSRTPlatform, CudaMMPlatform])
def test_it_is_cuda_and_nothing_else(cls):
    platform = cls()
    assert platform.is_cuda()
    assert platform.is_cuda_alike()
    assert not platform.is_rocm()
    assert not platform.is_out_of_tree()
    assert (platform.device_name, platform.device_type) == ("cuda", "cuda")
    assert platform.get_torch_distributed_backend_str() == "nccl"
    assert repr(platform) == f"{cls.__name__}(device=cuda)"


@pytest.mark.parametrize("cls", [CudaSRTPlatform, CudaMMPlatform])
def test_every_operation_of_a_device_is_there(cls):
    required = [
        "get_device",
        "set_device",
        "get_device_name",
        "get_device_uuid",
        "get_device_capability",
        "get_device_total_memory",
        "get_available_memory",
        "get_current_memory_usage",
    ]
    for name in required:
        assert getattr(cls, name) is not getattr(DeviceMixin, name)


def test_both_orders_of_bases():
    other = type("Other", (CudaDeviceMixin, SRTPlatform), {})()
    assert other.is_cuda()
    assert type("OtherMM", (CudaDeviceMixin, MMPlatform), {})().get_device(1) == torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("found", "fp8"),
    [
        ([(9, 0)], True),
        ([(8, 9), (12, 0)], True),
        ([(8, 0)], False),
        ([(9, 0), (8, 6)], False),
        ([(10, 3)], True),
    ],
)
def test_fp8_is_claimed_where_every_gpu_has_it(monkeypatch, found, fp8):
    monkeypatch.setattr(probe, "compute_capabilities", lambda: found)
    assert CudaSRTPlatform().capabilities == PlatformCapabilities(
        supports_triton=True,
        graph_capture=True,
        piecewise_graph=True,
        hicache_device_kernels=True,
        supports_pynccl=True,
        fp8=fp8,
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_capabilities_can_be_asked_without_a_gpu():
    capabilities = CudaSRTPlatform().capabilities
    assert capabilities.graph_capture
    assert not capabilities.fp8
    assert not CudaMMPlatform().device_shares_host_memory()
    assert not torch.cuda.is_initialized()


def test_outside_a_host_every_part_is_its_own(monkeypatch):
    monkeypatch.setenv("SGLANG_PLATFORM_PARTS", "host")  # there is none
    platform = CudaSRTPlatform()
    for kind, base in {"mha": MHATokenToKVPool, "mla": MLATokenToKVPool, "dsa": DSATokenToKVPool}.items():
        cls = platform.get_kv_pool_cls(kind=kind)
        assert issubclass(cls, base)
        stored = {str(dtype).removeprefix("torch.") for dtype in cls.supported_dtypes}
        assert stored == set(platform.supported_kv_dtypes)
    assert platform.get_kv_pool_cls(kind="nsa") is platform.get_kv_pool_cls(kind="dsa")
    assert issubclass(platform.get_paged_allocator_cls(), PagedTokenToKVPoolAllocator)
    assert issubclass(platform.get_graph_runner_cls(), GraphRunner)
    assert issubclass(platform.get_communicator_class(), DeviceCommunicator)
    name = platform.get_default_attention_backend()
    assert issubclass(platform.get_attention_backends()[name], AttentionBackend)


@pytest.fixture
def host(monkeypatch):
    """A host that asks for a pool of 8-bit floats, with none of its libraries."""
    made = SimpleNamespace(pool_asked=PoolAsked(str(STORED[-1]).removeprefix("torch.")))
    monkeypatch.setattr(parts, "active_host", lambda: made)
    monkeypatch.setattr(parts, "_is_installed", lambda name: False)
    monkeypatch.delenv("SGLANG_PLATFORM_PARTS", raising=False)
    return made


def test_its_part_in_a_host(host, monkeypatch):
    platform = CudaSRTPlatform()
    assert platform.get_kv_pool_cls(kind="mha") is POOLS["mha"]
    assert platform.get_kv_pool_cls(kind="mla") is POOLS["mla"]
    assert platform.get_kv_pool_cls(kind="dsa") is None
    assert platform.get_paged_allocator_cls() is not None
    assert platform.get_graph_runner_cls() is None
    assert platform.get_communicator_class() is None
    with pytest.raises(NotImplementedError, match="the host chooses by model"):
        platform.get_default_attention_backend()
    assert "sglang_platform_cuda" in platform.get_attention_backends(), "it may still be named"
    monkeypatch.setenv("SGLANG_PLATFORM_PARTS", "attention=own,kv_pool=host,graph_runner=own")
    assert platform.get_default_attention_backend() == "sglang_platform_cuda"
    assert platform.get_kv_pool_cls(kind="mla") is None
    assert platform.get_graph_runner_cls() is not None


@pytest.mark.parametrize(
    "asked",
    [None, PoolAsked("bfloat16"), PoolAsked("float4_e2m1fn_x2"), PoolAsked("float8_e4m3fn", "sharded")],
)
def test_the_hosts_pool_where_its_own_is_no_better(host, asked):
    host.pool_asked = asked
    assert [CudaSRTPlatform().get_kv_pool_cls(kind=kind) for kind in ("mha", "mla", "dsa")] == [None] * 3


def test_the_rule_knows_what_the_pools_store_in_8_bits():
    assert {str(dtype).removeprefix("torch.") for dtype in STORED if dtype.itemsize == 1} == set(EIGHT_BIT)


def test_the_ops_of_the_host_where_its_libraries_serve_them(host, monkeypatch):
    assert CudaSRTPlatform()._parts.own("ops")
    monkeypatch.setattr(parts, "_is_installed", lambda name: name == "sgl_kernel")
    assert not CudaSRTPlatform()._parts.own("ops")


def test_the_ops_are_registered_where_they_serve(monkeypatch):
    key = CudaSRTPlatform().get_dispatch_key_name()
    registered = []
    monkeypatch.setattr(ops, "register", registered.append)
    monkeypatch.setattr(parts, "active_host", lambda: SimpleNamespace(pool_asked=None))
    monkeypatch.setenv("SGLANG_PLATFORM_PARTS", "host")
    CudaSRTPlatform().init_backend()
    assert registered == []
    monkeypatch.setenv("SGLANG_PLATFORM_PARTS", "own")
    CudaSRTPlatform().init_backend()
    assert registered == [key]


@pytest.mark.parametrize("kind", ["mha", "mla"])
def test_pools_serve_on_the_cpu(kind):
    platform = CudaSRTPlatform()
    sizes = {"mha": {"head_num": 2, "head_dim": 8}, "mla": {"kv_lora_rank": 16, "qk_rope_head_dim": 8}}[kind]
    pool = platform.get_kv_pool_cls(kind=kind)(
        size=30,
        page_size=4,
        dtype=torch.bfloat16,
        layer_num=2,
        device="cpu",
        enable_memory_saver=False,
        **sizes,
    )
    layer, loc = type("Layer", (), {"layer_id": 1})(), torch.tensor([33, 4])
    rows = torch.randn(2, 2, 8) if kind == "mha" else torch.randn(2, 1, 24)
    pool.set_kv_buffer(layer, loc, rows, rows)
    pool.move_kv_cache(torch.tensor([4, 33]), loc)
    assert torch.equal(pool.get_key_buffer(1)[[4, 33]], rows.bfloat16())
    saved = pool.get_cpu_copy(loc)
    pool.load_cpu_copy(saved, torch.tensor([10, 11]))
    assert torch.equal(pool.get_key_buffer(1)[[10, 11]], pool.get_key_buffer(1)[loc])
    assert not torch.cuda.is_initialized()


def test_ranks_and_dispatch():
    assert CudaSRTPlatform().get_group_coordinator_device(3) == torch.device("cuda", 3)
    assert CudaSRTPlatform().get_dispatch_key_name() == "cuda"
    assert CudaMMPlatform().get_torch_library_dispatch_key() == "CUDA"
    assert CudaMMPlatform().get_all_to_all_communicator_cls().endswith(".CudaCommunicator")
    assert CudaMMPlatform().supports_distributed_device_id()
