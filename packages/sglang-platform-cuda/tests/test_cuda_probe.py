import os
import sys

import pytest

from sglang_platform.core.portable.torch.build import TorchBuild
from sglang_platform.cuda import installation, probe

CUDA_BUILD = TorchBuild("2.13.0+cu130", "13.0", None)


@pytest.fixture(autouse=True)
def an_ordinary_machine(monkeypatch):
    """A CUDA build of torch and no environment, whatever this machine has."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(installation, "torch_build", lambda: CUDA_BUILD)


def why(root):
    """The reason, or None."""
    found = probe.why_unavailable(root)
    return None if found is None else found.reason


def machine(root, *files):
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def test_a_machine_without_the_driver(tmp_path):
    machine(tmp_path, "dev/null", "dev/nvidia-uvm-tools")
    reason = "no NVIDIA GPU: no /dev/nvidia<N>, and no NVIDIA driver is loaded"
    assert why(tmp_path) == reason


def test_a_container_that_was_not_given_its_gpus(tmp_path):
    # The control device alone is no GPU; /proc shows the host's driver through any container.
    machine(tmp_path, "proc/driver/nvidia/version", "dev/nvidiactl")
    assert "in a container, start it with its GPUs" in why(tmp_path)


@pytest.mark.parametrize(
    "node", ["dev/nvidia0", "dev/nvidia12", "dev/dxg", "dev/nvhost-ctrl-gpu", "dev/nvgpu/igpu0/ctrl"]
)
def test_a_machine_with_a_gpu(tmp_path, node, monkeypatch):
    monkeypatch.setattr(probe, "_nvml_refuses", lambda: None)
    assert why(machine(tmp_path, node)) is None


@pytest.mark.parametrize("value", ["", "-1", " "])
def test_an_environment_that_hides_every_gpu(tmp_path, monkeypatch, value):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    reason = f"CUDA_VISIBLE_DEVICES={value} hides every GPU from this process"
    assert why(machine(tmp_path, "dev/dxg")) == reason


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (None, "torch is not installed"),
        (
            TorchBuild("2.13.0+cpu", None, None),
            "torch 2.13.0+cpu was built without CUDA",
        ),
        (
            TorchBuild("2.13.0+rocm7.1", None, "7.1"),
            "torch 2.13.0+rocm7.1 is a ROCm build, which drives AMD GPUs only",
        ),
    ],
)
def test_a_torch_that_cannot_drive_it(tmp_path, monkeypatch, build, reason):
    monkeypatch.setattr(installation, "torch_build", lambda: build)
    found = probe.why_unavailable(machine(tmp_path, "dev/dxg"))
    assert found.reason == reason
    assert "docs/installation.md, NVIDIA" in found.fix
    assert why(machine(tmp_path / "bare")).startswith("no NVIDIA GPU"), "asked where there is a GPU"


@pytest.mark.parametrize(
    ("driver", "built_for", "refused"),
    [
        (13000, "13.0", False),
        (13020, "13.0", False),
        (12080, "13.0", True),
        (12020, "12.8", False),
        (None, "13.0", False),
    ],
)
def test_a_driver_older_than_torchs_cuda(monkeypatch, driver, built_for, refused):
    monkeypatch.setattr(installation, "torch_build", lambda: TorchBuild("2.13.0", built_for, None))
    found = installation.why_unfit(driver)
    assert (found is not None) == refused
    if refused:
        assert "the NVIDIA driver serves CUDA 12.8, and torch 2.13.0 was built for CUDA 13.0" in found.reason
        assert "update the driver" in found.fix


FAKE_NVML = """
class NVMLError(Exception):
    def __init__(self, value): self.value = value
    def __str__(self): return f"error {self.value}"
NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIB_RM_VERSION_MISMATCH, NVML_ERROR_LIBRARY_NOT_FOUND = 9, 18, 12
fails, count, version, open_now = FAILS, COUNT, 13000, 0
def nvmlInit():
    global open_now
    if fails: raise NVMLError(fails)
    open_now += 1
def nvmlShutdown():
    global open_now
    open_now -= 1
def nvmlDeviceGetCount(): return count
def nvmlSystemGetCudaDriverVersion_v2(): return version
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetCudaComputeCapability(handle): return [9, handle]
"""


@pytest.mark.parametrize(
    ("fails", "count", "reason", "capabilities"),
    [
        (0, 2, None, [(9, 0), (9, 1)]),
        (0, 0, "NVML counts no GPU that this process may use", []),
        (9, 1, "NVML cannot reach the driver: error 9", []),
        (18, 1, "NVML cannot reach the driver: error 18", []),
        (12, 1, None, []),
        (999, 1, None, []),
    ],
)
def test_what_nvml_says(tmp_path, monkeypatch, fails, count, reason, capabilities):
    (tmp_path / "pynvml.py").write_text(FAKE_NVML.replace("FAILS", str(fails)).replace("COUNT", str(count)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    assert why(machine(tmp_path, "dev/nvidia0")) == reason
    assert probe.compute_capabilities() == capabilities
    assert sys.modules["pynvml"].open_now == 0
    monkeypatch.delitem(sys.modules, "pynvml")


def test_no_nvml_binding_decides_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert why(machine(tmp_path, "dev/nvidia0")) is None
    assert probe.compute_capabilities() == []


def test_activating_imports_nothing_heavy_and_answers_here(run_program, monkeypatch):
    for name in [name for name in os.environ if name.startswith("SGLANG_")]:
        monkeypatch.delenv(name)
    answer, reason, heavy = run_program("activate_cuda.py").stdout.splitlines()
    assert heavy == "[]"
    assert answer == ("sglang_platform.cuda.platform:CudaSRTPlatform" if reason == "None" else reason)
