import pytest
import torch

from sglang_platform.core.contract import DeviceMixin, MMPlatform, SRTPlatform
from sglang_platform.core.contract.capabilities import PlatformCapabilities
from sglang_platform.cuda import probe
from sglang_platform.cuda.device import CudaDeviceMixin
from sglang_platform.cuda.platform import CudaMMPlatform, CudaSRTPlatform


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


def test_the_parts_it_does_not_bring_stay_the_hosts():
    platform = CudaSRTPlatform()
    for kind in ("mha", "mla", "dsa"):
        assert (platform.get_kv_pool_cls(kind=kind) is not None) == (kind in platform.supported_kv_kinds)
    with pytest.raises(NotImplementedError, match="the host chooses among its own"):
        platform.get_default_attention_backend()


def test_ranks_and_dispatch():
    assert CudaSRTPlatform().get_group_coordinator_device(3) == torch.device("cuda", 3)
    assert CudaSRTPlatform().get_dispatch_key_name() == "cuda"
    assert CudaMMPlatform().get_torch_library_dispatch_key() == "CUDA"
    assert CudaMMPlatform().get_all_to_all_communicator_cls().endswith(".CudaCommunicator")
    assert CudaMMPlatform().supports_distributed_device_id()
