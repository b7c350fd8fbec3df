# Overrides take the contract's parameters, whether they use them or not.

import enum
import pickle
import random

import pytest
import torch

from sglang_platform.core.contract import DeviceMixin, MMPlatform, PlatformEnum, SRTPlatform
from sglang_platform.core.contract.types import CpuArchEnum

IDENTITY = {
    "CUDA": "is_cuda",
    "ROCM": "is_rocm",
    "CPU": "is_cpu",
    "XPU": "is_xpu",
    "MUSA": "is_musa",
    "NPU": "is_npu",
    "TPU": "is_tpu",
    "MPS": "is_mps",
    "SAIL": "is_sail",
    "OOT": "is_out_of_tree",
}
MUST_IMPLEMENT = [
    ("get_device", ()),
    ("set_device", (torch.device("cpu"),)),
    ("get_device_name", ()),
    ("get_device_uuid", ()),
    ("get_device_capability", ()),
    ("get_device_total_memory", ()),
    ("get_available_memory", ()),
    ("get_current_memory_usage", ()),
]


class Board(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "board"
    device_type = "board"

    def get_device_total_memory(self, device_id=0):
        return 1 << 30

    def get_torch_distributed_backend_str(self):
        return "board_ccl"


class PlatformFirst(SRTPlatform, Board):
    pass


class DeviceFirst(Board, SRTPlatform):
    pass


class WithoutMixin(SRTPlatform):
    _enum = PlatformEnum.OOT
    device_name = "board"
    device_type = "board"

    def get_device_total_memory(self, device_id=0):
        return 1 << 30

    def get_torch_distributed_backend_str(self):
        return "board_ccl"


class MMPlatformFirst(MMPlatform, Board):
    pass


@pytest.mark.parametrize("runtime", [SRTPlatform, MMPlatform])
def test_a_runtimes_platform_redefines_nothing_of_the_device(runtime):
    public = {name for name in vars(runtime) if not name.startswith("_")}
    assert not public & set(vars(DeviceMixin))


@pytest.mark.parametrize("cls", [PlatformFirst, DeviceFirst, WithoutMixin, MMPlatformFirst])
def test_the_device_answers_in_either_order_of_bases(cls):
    platform = cls()
    assert platform.is_out_of_tree()
    assert not platform.is_cpu()
    assert platform.device_name == platform.device_type == "board"
    assert platform.get_device_total_memory() == 1 << 30
    assert platform.get_torch_distributed_backend_str() == "board_ccl"
    assert repr(platform) == f"{cls.__name__}(device=board)"


@pytest.mark.parametrize("member", PlatformEnum)
def test_exactly_one_identity_holds(member):
    platform = type("P", (SRTPlatform,), {"_enum": member})()
    holding = {name for name, query in IDENTITY.items() if getattr(platform, query)()}
    assert holding == {member.name} & set(IDENTITY)
    assert platform.is_cuda_alike() == (member.name in {"CUDA", "ROCM", "MUSA", "SAIL"})


def test_identity_can_be_set_on_an_instance():
    class Chameleon(SRTPlatform):
        def __init__(self, member):
            self._enum = member

    cuda, rocm = Chameleon(PlatformEnum.CUDA), Chameleon(PlatformEnum.ROCM)
    assert cuda.is_cuda()
    assert not cuda.is_rocm()
    assert rocm.is_rocm()
    assert not Chameleon(PlatformEnum.OOT).is_cuda_alike()


def test_identity_is_compared_by_the_name_of_the_member():
    # A host's own enum: other order, other values, no common class.
    host_enum = enum.Enum("HostEnum", ["UNSPECIFIED", "OOT", "ROCM"])
    platform = PlatformFirst()
    platform._enum = host_enum.ROCM
    assert platform.is_rocm()
    assert platform.is_cuda_alike()
    assert not platform.is_out_of_tree()


@pytest.mark.parametrize(("name", "arguments"), MUST_IMPLEMENT)
def test_what_a_device_must_implement_says_so(name, arguments):
    class Bare(SRTPlatform):
        pass

    with pytest.raises(NotImplementedError, match=rf"Bare does not implement {name}\(.*must return "):
        getattr(Bare(), name)(*arguments)


@pytest.mark.parametrize(
    ("device_type", "backend"),
    [
        ("cuda", "nccl"),
        ("xpu", "xccl"),
        ("npu", "hccl"),
        ("hpu", "hccl"),
        ("cpu", "gloo"),
        ("musa", "mccl"),
        ("mps", "gloo"),
        ("of_my_own", "gloo"),
    ],
)
def test_the_distributed_backend_follows_the_device_type(device_type, backend):
    cls = type("P", (SRTPlatform,), {"device_type": device_type})
    assert cls().get_torch_distributed_backend_str() == backend


@pytest.mark.parametrize("device_type", ["cpu", "mps", "cuda", "xpu", "npu", "of_my_own"])
def test_the_profiler_activity_is_one_torch_has(device_type):
    platform = type("P", (SRTPlatform,), {"device_type": device_type})()
    activity = platform.get_torch_profiler_activity()
    assert activity is getattr(torch.profiler.ProfilerActivity, platform.get_torch_profiler_activity_str())
    assert (device_type == "of_my_own") <= (activity is torch.profiler.ProfilerActivity.PrivateUse1)


def test_safe_defaults_change_nothing():
    platform = PlatformFirst()
    assert platform.empty_cache() is None
    assert platform.synchronize() is None
    assert platform.is_pin_memory_available() is False
    assert platform.is_pin_memory_available(torch.device("cpu")) is False
    assert platform.get_communicator_class() is None
    assert platform.verify_quantization("fp8") is None
    with platform.reindex_device_id(3) as index:
        assert index == 3


def test_the_cpu_architecture_is_asked_once():
    class Counting(SRTPlatform):
        _asked = 0

        @classmethod
        def get_cpu_architecture(cls):
            cls._asked += 1
            return CpuArchEnum.ARM

    platform = Counting()
    assert (platform.cpu_arch, platform.cpu_arch) == (CpuArchEnum.ARM, CpuArchEnum.ARM)
    assert Counting._asked == 1


@pytest.mark.parametrize(
    ("machine", "arch"),
    [("x86_64", "X86"), ("AMD64", "X86"), ("aarch64", "ARM"), ("arm64", "ARM"), ("riscv64", "UNSPECIFIED")],
)
def test_the_processor_family(monkeypatch, machine, arch):
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert SRTPlatform.get_cpu_architecture() is CpuArchEnum[arch]


def test_seeding_repeats_every_generator_and_none_leaves_them():
    import numpy as np

    def draw():
        return random.random(), float(np.random.rand()), torch.rand(3).tolist()

    SRTPlatform.seed_everything(7)
    first = draw()
    SRTPlatform.seed_everything(None)
    second = draw()
    SRTPlatform.seed_everything(7)
    assert draw() == first
    assert draw() == second


def test_inference_mode_is_torchs():
    with SRTPlatform.inference_mode():
        assert torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled()


def test_a_platform_can_be_pickled_to_a_worker():
    platform = PlatformFirst()
    platform.device_name = "board 7"
    assert pickle.loads(pickle.dumps(platform)).device_name == "board 7"
