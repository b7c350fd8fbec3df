# Overrides take the contract's parameters, whether they use them or not.

import enum

import pytest
import torch

from sglang_platform.core.contract import DeviceCapability, DeviceMixin, MMPlatform, PlatformEnum, SRTPlatform
from sglang_platform.core.contract.mm import HOST_DEFAULT

HostBackends = enum.Enum("HostBackends", ["FA", "TORCH_SDPA"])


class Device(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "board"
    device_type = "cpu"
    _emptied = 0

    def get_device(self, device_id=0):
        return torch.device(self.device_type, device_id)

    def get_available_memory(self, device_id=0):
        return (3 << 30) + device_id * (1 << 30), 16 << 30

    def get_device_capability(self, device_id=0):
        return DeviceCapability(9, 0)

    def empty_cache(self):
        self._emptied += 1


class Platform(MMPlatform, Device):
    pass


class CudaPlatform(Platform):
    _enum = PlatformEnum.CUDA


class Both(SRTPlatform, MMPlatform, Device):
    def get_dispatch_key_name(self):
        return "board"


@pytest.mark.parametrize("chosen", [None, HostBackends.TORCH_SDPA])
def test_attention_is_torchs_unless_the_platform_brings_its_own(chosen):
    assert Platform().get_attn_backend_cls_str(chosen, 128, torch.float16) == HOST_DEFAULT


def test_an_attention_backend_it_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"Platform .* has no attention backend FA, only TORCH_SDPA"):
        Platform().get_attn_backend_cls_str(HostBackends.FA, 128, torch.float16)


def test_the_attention_backend_class_is_the_named_one():
    class Own(Platform):
        def get_attn_backend_cls_str(self, selected_backend, head_size, dtype):
            return "collections.OrderedDict" if head_size == 64 else "collections.deque"

    assert Own().get_attn_backend(None, 64, torch.float16).__name__ == "OrderedDict"
    assert Own().get_attn_backend(None, 80, torch.float16).__name__ == "deque"


def test_an_out_of_tree_platform_must_name_its_all_to_all():
    with pytest.raises(
        NotImplementedError, match="Platform does not implement get_all_to_all_communicator_cls"
    ):
        Platform().get_all_to_all_communicator_cls()

    class Named(Platform):
        def get_device_communicator_cls(self):
            return "board.Communicator"

    assert Named().get_all_to_all_communicator_cls() == "board.Communicator"
    assert CudaPlatform().get_all_to_all_communicator_cls() == HOST_DEFAULT


def test_an_out_of_tree_platform_must_set_its_dispatch_key():
    with pytest.raises(NotImplementedError, match="Platform does not set dispatch_key"):
        Platform().get_torch_library_dispatch_key()
    assert (
        type("P", (Platform,), {"dispatch_key": "PrivateUse1"})().get_torch_library_dispatch_key()
        == "PrivateUse1"
    )
    assert CudaPlatform().get_torch_library_dispatch_key() == "CUDA"
    assert (
        type("P", (Platform,), {"_enum": PlatformEnum.NPU})().get_torch_library_dispatch_key()
        == "PrivateUse1"
    )


@pytest.mark.parametrize(
    ("device_type", "supported"), [("cpu", True), ("cuda", True), ("meta", False), ("of_my_own", False)]
)
def test_autocast_is_claimed_where_torch_has_it(device_type, supported):
    assert type("P", (MMPlatform,), {"device_type": device_type})().is_amp_supported() is supported


def test_the_compile_backend_is_the_attribute():
    assert MMPlatform().get_compile_backend("max-autotune") == "inductor"
    assert type("P", (MMPlatform,), {"simple_compile_backend": "eager"})().get_compile_backend() == "eager"
    assert MMPlatform().get_compile_options(torch.nn.Identity()) is None


def test_layerwise_offload_is_off_where_device_and_host_are_one():
    assert Platform().enable_dit_layerwise_offload_by_default() is False
    assert (
        type("P", (MMPlatform,), {"device_type": "cuda"})().enable_dit_layerwise_offload_by_default() is True
    )


def test_the_vae_is_left_as_it_is():
    vae = torch.nn.Identity()
    assert MMPlatform().optimize_vae(vae) is vae


def test_the_local_device_is_that_of_the_rank(monkeypatch):
    platform = type("P", (Platform,), {"device_type": "meta"})()
    assert platform.get_local_torch_device() == torch.device("meta", 0)
    monkeypatch.setenv("LOCAL_RANK", "5")
    assert platform.get_local_torch_device() == torch.device("meta", 5)


def test_free_memory_is_in_gib(monkeypatch):
    platform = Platform()
    assert platform.get_available_gpu_memory() == 3.0
    assert platform._emptied == 1
    assert platform.get_available_gpu_memory(2, empty_cache=False) == 5.0
    assert platform._emptied == 1
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert platform.get_available_gpu_memory() == 4.0


def test_free_memory_over_a_group_is_the_least_of_its_ranks(run_two_ranks, tmp_path):
    ranks = run_two_ranks("ask_for_free_memory.py", str(tmp_path / "store"), timeout=120)
    assert [rank.stdout.split() for rank in ranks] == [
        ["7.0", "4.0", "4.0"],
        ["4.0", "4.0", "4.0"],
    ]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [((9, 0), True), ((8, 9), True), ((10, 0), False), (90, True), (89, True), (100, False)],
)
def test_capability_is_compared_as_tuple_or_integer(asked, answer):
    assert Platform().has_device_capability(asked) is answer


def test_a_device_without_a_capability_has_none():
    class Unnumbered(Platform):
        def get_device_capability(self, device_id=0):
            return None

    assert Unnumbered().has_device_capability((0, 0)) is False
    assert type("P", (Unnumbered,), {"_enum": PlatformEnum.CUDA})().is_blackwell() is False


@pytest.mark.parametrize(
    ("capability", "generation"),
    [((9, 0), "is_hopper"), ((10, 3), "is_blackwell"), ((12, 0), "is_sm120"), ((8, 9), None)],
)
def test_nvidia_generations(capability, generation):
    platform = CudaPlatform()
    platform.get_device_capability = lambda device_id=0: DeviceCapability(*capability)
    queries = {"is_hopper", "is_blackwell", "is_sm120"}
    assert {query for query in queries if getattr(platform, query)()} == {generation} - {None}
    # The same numbers on another vendor's device mean nothing.
    platform._enum = PlatformEnum.ROCM
    assert not any(getattr(platform, query)() for query in queries)
    assert platform.is_hip()
    assert platform.is_rocm_static()
    assert not platform.is_cuda_static()


def test_a_tensor_is_on_the_device_by_its_type():
    assert Platform().tensor_on_device(torch.zeros(1))
    assert not Platform().tensor_on_device(torch.zeros(1, device="meta"))
    assert Platform().is_device_type("cpu")
    assert not Platform().is_device_type("cuda")
    assert not Platform().is_device_type(None)


def test_only_the_devices_torch_names_take_a_device_id():
    answers = {
        member.name: type("P", (MMPlatform,), {"_enum": member})().supports_distributed_device_id()
        for member in PlatformEnum
    }
    assert {name for name, answer in answers.items() if answer} == {"CUDA", "ROCM"}


def test_one_class_may_serve_both_runtimes():
    assert Both().get_dispatch_key_name() == "board"
    assert Both().get_compile_backend() == "inductor"
