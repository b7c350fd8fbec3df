import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sglang_platform.core.contract import DeviceCapability, PlatformEnum, SRTPlatform
from sglang_platform.core.portable.torch import device as device_file
from sglang_platform.core.portable.torch.device import TorchDeviceMixin
from sglang_platform.core.portable.torch.visibility import hidden_by, only_device

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can drive")


class Gpu(TorchDeviceMixin):
    _enum = PlatformEnum.CUDA
    device_name = "gpu"
    device_type = "cuda"
    _visibility_variables = ("CUDA_VISIBLE_DEVICES",)


class Hip(TorchDeviceMixin):
    _enum = PlatformEnum.ROCM
    device_name = "hip"
    device_type = "cuda"
    _visibility_variables = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


class Platform(SRTPlatform, Gpu):
    pass


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


def test_importing_and_instantiating_touch_neither_torch_nor_a_device(run_program):
    done = run_program("use_the_device_mixin.py")
    assert done.stdout.split() == ["False", "False"]


def test_devices_are_torchs_cuda_devices():
    assert Gpu().get_device() == torch.device("cuda", 0)
    assert Gpu().get_device(3) == torch.device("cuda:3")
    assert Gpu().get_device(None) == torch.device("cuda")
    assert Hip().get_device(1).type == Hip.device_type == "cuda"


def test_what_the_base_class_answers_is_right_for_both():
    for mixin in (Gpu(), Hip()):
        assert mixin.get_torch_distributed_backend_str() == "nccl"
        assert mixin.get_torch_profiler_activity() is torch.profiler.ProfilerActivity.CUDA


@pytest.mark.parametrize(
    ("device", "answer"),
    [
        (None, True),
        ("cuda", True),
        ("cuda:1", True),
        (torch.device("cuda", 0), True),
        ("cpu", False),
        (torch.device("cpu"), False),
        (torch.device("cpu", 0), False),
    ],
)
def test_memory_is_pinned_for_copies_to_the_gpu(device, answer):
    assert Platform().is_pin_memory_available(device) is answer


@pytest.mark.parametrize(
    ("before", "device_id", "inside"),
    [
        (None, 2, "2"),
        ("4,5,6", 1, "5"),
        (" 4 , 5", 1, "5"),
        ("GPU-aa,GPU-bb", 0, "GPU-aa"),
        ("MIG-1/2/0", 0, "MIG-1/2/0"),
    ],
)
def test_reindexing_shows_one_device_and_restores_the_rest(monkeypatch, before, device_id, inside):
    if before is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
    with Platform().reindex_device_id(device_id) as index:
        child = [sys.executable, "-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"]
        assert subprocess.run(child, capture_output=True, text=True).stdout.strip() == inside
        assert index == 0
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == before


@pytest.mark.parametrize("before", [None, "4,5"])
def test_the_environment_is_restored_when_the_block_fails(monkeypatch, before):
    if before is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)

    def start_a_worker():
        with Platform().reindex_device_id(0):
            os.environ["CUDA_VISIBLE_DEVICES"] = "9"
            raise RuntimeError("the worker died")

    with pytest.raises(RuntimeError, match="the worker died"):
        start_a_worker()
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == before


@pytest.mark.parametrize(("before", "device_id"), [("4,5", 2), ("", 0), ("-1", 0), ("4,-1,5", 1), ("4", -1)])
def test_a_device_that_is_not_visible_is_refused(monkeypatch, before, device_id):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
    message = f"there is no device {device_id}: CUDA_VISIBLE_DEVICES={before} shows "
    with pytest.raises(ValueError, match=message), Platform().reindex_device_id(device_id):
        pass
    assert os.environ["CUDA_VISIBLE_DEVICES"] == before


def test_reindexing_nests(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    with Platform().reindex_device_id(2) as outer, Platform().reindex_device_id(outer):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5,6"


def test_the_variable_that_the_runtime_obeys_is_the_one_that_is_changed(monkeypatch):
    with Hip().reindex_device_id(1):
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == "1"
        assert "HIP_VISIBLE_DEVICES" not in os.environ
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "2,3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with Hip().reindex_device_id(1):
        assert (os.environ["HIP_VISIBLE_DEVICES"], os.environ["CUDA_VISIBLE_DEVICES"]) == ("3", "0")
    assert os.environ["HIP_VISIBLE_DEVICES"] == "2,3"


@given(st.lists(st.integers(0, 15), min_size=1, max_size=6), st.integers(0, 5))
def test_the_device_shown_is_the_one_at_that_place(entries, place):
    name = "A_VISIBILITY_VARIABLE"
    os.environ[name] = ",".join(map(str, entries))
    try:
        if place >= len(entries):
            with pytest.raises(ValueError), only_device(place, [name], name):
                pass
        else:
            with only_device(place, [name], name):
                assert os.environ[name] == str(entries[place])
    finally:
        assert os.environ.pop(name) == ",".join(map(str, entries))


@pytest.mark.parametrize(
    ("value", "hides"),
    [(None, False), ("0", False), ("GPU-aa", False), ("", True), ("-1", True), (" ", True)],
)
def test_a_setting_that_hides_every_device_is_named(monkeypatch, value, hides):
    if value is not None:
        monkeypatch.setenv("HIP_VISIBLE_DEVICES", value)
    found = hidden_by(["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"])
    assert found == (f"HIP_VISIBLE_DEVICES={value}" if hides else None)


MACHINE = 8 << 30


def a_device(monkeypatch, *, visible=(), **properties):
    """A device whose torch module has these properties, on a machine with 8 GiB available."""
    module = SimpleNamespace(
        mem_get_info=lambda device: (20 << 30, 24 << 30),
        memory_reserved=lambda device: 1 << 30,
        get_device_properties=lambda device: SimpleNamespace(**properties),
    )
    monkeypatch.setattr(device_file, "_machines_available_memory", lambda: MACHINE)
    monkeypatch.setattr(device_file, "_machine_id", lambda: "9f3c")
    body = {"_module": lambda self: module, "device_type": "acme", "_visibility_variables": visible}
    return module, type("Acme", (Gpu,), body)()


@pytest.mark.parametrize(
    ("properties", "free"),
    [
        ({}, 20 << 30),
        ({"is_integrated": 0}, 20 << 30),
        ({"is_integrated": False}, 20 << 30),
        ({"is_integrated": 1}, MACHINE),
        ({"is_integrated": True}, MACHINE),
    ],
)
def test_the_memory_of_an_integrated_device_is_the_machines(monkeypatch, properties, free):
    _, device = a_device(monkeypatch, **properties)
    assert device.get_available_memory(0) == (free, 24 << 30)


def test_an_integrated_device_keeps_its_limit(monkeypatch):
    module, device = a_device(monkeypatch, is_integrated=True)
    module.memory_reserved = lambda device: 22 << 30
    assert device.get_available_memory(0) == (2 << 30, 24 << 30)


def test_a_system_that_does_not_tell_leaves_the_drivers_figure(monkeypatch):
    _, device = a_device(monkeypatch, is_integrated=True)
    monkeypatch.setattr(device_file, "_machines_available_memory", lambda: None)
    assert device.get_available_memory(0)[0] == 20 << 30


@pytest.mark.parametrize(
    ("properties", "shown", "device_id", "uuid"),
    [
        ({"uuid": "aa-bb"}, None, 0, "aa-bb"),
        ({"uuid": None}, None, 0, "9f3c-acme-0"),
        ({}, None, 3, "9f3c-acme-3"),
        ({}, "4,5", 1, "9f3c-acme-5"),
        ({}, "5", 0, "9f3c-acme-5"),
        ({}, "", 0, "9f3c-acme-0"),
        ({}, "ACME-17", 0, "9f3c-acme-ACME-17"),
    ],
)
def test_a_uuid_is_the_drivers_or_of_machine_and_device(monkeypatch, properties, shown, device_id, uuid):
    _, device = a_device(monkeypatch, visible=("ACME_VISIBLE_DEVICES",), **properties)
    if shown is not None:
        monkeypatch.setenv("ACME_VISIBLE_DEVICES", shown)
    assert device.get_device_uuid(device_id) == uuid


def test_a_torch_module_without_properties_is_enough(monkeypatch):
    module, device = a_device(monkeypatch)
    del module.get_device_properties
    assert device.get_device_uuid(0) == "9f3c-acme-0"
    assert device.get_device_total_memory(0) == 24 << 30
    assert device.get_available_memory(0) == (20 << 30, 24 << 30)


def test_a_machine_has_an_id_that_stays(monkeypatch):
    assert device_file._machine_id() == device_file._machine_id()
    assert len(device_file._machine_id()) >= 12
    monkeypatch.setattr(Path, "is_file", lambda path: False)
    assert re.fullmatch("[0-9a-f]{12}", device_file._machine_id())


@needs_gpu
def test_a_real_device_answers_in_the_contracts_units():
    platform = Platform()
    device = platform.get_device(0)
    platform.set_device(device)
    free, total = platform.get_available_memory(0)
    assert 0 < free <= total == platform.get_device_total_memory(0)
    before = platform.get_current_memory_usage(device)
    held = torch.ones(1 << 24, device=device)
    assert platform.get_current_memory_usage(device) >= before + held.nbytes or before >= held.nbytes
    assert isinstance(platform.get_device_name(0), str)
    assert platform.get_device_uuid(0) == platform.get_device_uuid(0)
    assert isinstance(platform.get_device_capability(0), DeviceCapability)
    del held
    platform.synchronize()
    platform.empty_cache()


@needs_gpu
def test_seeding_repeats_the_gpus_generator():
    Platform.seed_everything(11)
    first = torch.rand(4, device="cuda")
    Platform.seed_everything(11)
    assert torch.equal(torch.rand(4, device="cuda"), first)
