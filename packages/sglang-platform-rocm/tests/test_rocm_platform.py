import os

import pytest
import torch

from sglang_platform.core.contract import DeviceMixin, MMPlatform, SRTPlatform
from sglang_platform.core.contract.capabilities import PlatformCapabilities
from sglang_platform.rocm import probe
from sglang_platform.rocm.device import RocmDeviceMixin
from sglang_platform.rocm.platform import RocmMMPlatform, RocmSRTPlatform


@pytest.mark.parametrize("cls", [RocmSRTPlatform, RocmMMPlatform])
def test_it_is_rocm_on_torchs_cuda_devices(cls):
    platform = cls()
    assert platform.is_rocm()
    assert platform.is_cuda_alike()
    assert not platform.is_cuda()
    assert not platform.is_out_of_tree()
    assert (platform.device_name, platform.device_type) == ("rocm", "cuda")
    assert platform.get_torch_distributed_backend_str() == "nccl"
    assert repr(platform) == f"{cls.__name__}(device=rocm)"


@pytest.mark.parametrize("cls", [RocmSRTPlatform, RocmMMPlatform])
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
    other = type("Other", (RocmDeviceMixin, SRTPlatform), {})()
    assert other.is_rocm()
    assert type("OtherMM", (RocmDeviceMixin, MMPlatform), {})().get_device(1) == torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("found", "fp8"),
    [
        (["gfx942"], True),
        (["gfx950", "gfx950"], True),
        (["gfx1201"], True),
        (["gfx90a"], False),
        (["gfx942", "gfx90a"], False),
        (["gfx1100"], False),
        ([], False),
    ],
)
def test_fp8_is_claimed_where_every_gpu_has_it(monkeypatch, found, fp8):
    monkeypatch.setattr(probe, "gpu_architectures", lambda: found)
    assert RocmSRTPlatform().capabilities == PlatformCapabilities(
        supports_triton=True,
        graph_capture=True,
        piecewise_graph=True,
        hicache_device_kernels=True,
        supports_pynccl=True,
        fp8=fp8,
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_capabilities_can_be_asked_without_a_gpu():
    capabilities = RocmSRTPlatform().capabilities
    assert capabilities.graph_capture
    assert not capabilities.fp8
    assert not torch.cuda.is_initialized()


def test_the_parts_it_does_not_bring_stay_the_hosts():
    platform = RocmSRTPlatform()
    for kind in ("mha", "mla", "dsa"):
        assert (platform.get_kv_pool_cls(kind=kind) is not None) == (kind in platform.supported_kv_kinds)
    with pytest.raises(NotImplementedError, match="the host chooses among its own"):
        platform.get_default_attention_backend()


def test_ranks_and_dispatch():
    assert RocmSRTPlatform().get_group_coordinator_device(3) == torch.device("cuda", 3)
    assert RocmSRTPlatform().get_dispatch_key_name() == "hip"
    assert RocmMMPlatform().get_torch_library_dispatch_key() == "CUDA"
    assert RocmMMPlatform().get_all_to_all_communicator_cls().endswith(".CudaCommunicator")
    assert RocmMMPlatform().supports_distributed_device_id()


@pytest.mark.parametrize(("found", "answer"), [(["gfx1151"], True), (["gfx942"], False), ([], False)])
def test_strix_halo(monkeypatch, found, answer):
    monkeypatch.setattr(probe, "gpu_architectures", lambda: found)
    assert RocmMMPlatform().is_gfx1151() is answer


def test_layers_stay_on_the_device():
    assert RocmMMPlatform().enable_dit_layerwise_offload_by_default() is False
    assert RocmMMPlatform().is_hip()


def test_a_worker_sees_its_device_through_the_variable_hip_obeys(monkeypatch):
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "4,5")
    with RocmSRTPlatform().reindex_device_id(1) as index:
        assert (index, os.environ["HIP_VISIBLE_DEVICES"]) == (0, "5")
    assert os.environ["HIP_VISIBLE_DEVICES"] == "4,5"
