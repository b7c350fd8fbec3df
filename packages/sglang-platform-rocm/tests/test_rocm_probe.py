import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_platform.core.portable.torch.build import TorchBuild
from sglang_platform.rocm import installation, probe

tomllib = pytest.importorskip("tomllib")

ROCM_BUILD = TorchBuild("2.13.0+rocm7.1", None, "7.1.25424")
CPU_NODE = {"cpu_cores_count": 96, "simd_count": 0, "gfx_target_version": 0}


def gpu_node(version):
    return {"cpu_cores_count": 0, "simd_count": 1216, "gfx_target_version": version}


@pytest.fixture(autouse=True)
def an_ordinary_machine(monkeypatch):
    """A ROCm build of torch and no environment, whatever this machine has."""
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(installation, "torch_build", lambda: ROCM_BUILD)
    installed(monkeypatch, {"triton-rocm": "3.7.1"})


def installed(monkeypatch, versions):
    monkeypatch.setattr(installation, "installed_version", versions.get)


def why(root):
    """The reason, or None."""
    found = probe.why_unavailable(root)
    return None if found is None else found.reason


def machine(root, *nodes, kfd=True, topology=True):
    """A file system with the kernel's compute driver and these topology nodes; None is one that cannot be
    read."""
    (root / "dev").mkdir(parents=True, exist_ok=True)
    if kfd:
        (root / "dev/kfd").touch()
    if topology:
        (root / probe.NODES).mkdir(parents=True)
    for index, node in enumerate(nodes):
        folder = root / probe.NODES / str(index)
        folder.mkdir()
        if node is not None:
            text = "".join(f"{name} {value}\n" for name, value in node.items())
            (folder / "properties").write_text(text + "unique_id 0xabc\nodd line here\n")
    return root


def test_a_machine_without_the_driver(tmp_path):
    assert why(machine(tmp_path, kfd=False)) == "no /dev/kfd: no AMD GPU driver is loaded"


def test_a_container_that_was_not_given_its_gpus(tmp_path):
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    assert "--device=/dev/kfd --device=/dev/dri" in why(machine(tmp_path, kfd=False))


def test_a_user_who_may_not_open_it(tmp_path, monkeypatch):
    machine(tmp_path, CPU_NODE, gpu_node(90402))
    # Refused by hand, since the tests may run as root, which may open anything.
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path / "dev/kfd")
    assert "groups render and video" in why(tmp_path)


@pytest.mark.parametrize("nodes", [[], [CPU_NODE], [CPU_NODE, None, None], [{}]])
def test_a_driver_without_a_gpu_for_this_process(tmp_path, nodes):
    assert "none of the nodes in /sys/class/kfd/kfd/topology/nodes is one" in why(machine(tmp_path, *nodes))


def test_a_machine_with_gpus(tmp_path):
    machine(tmp_path, CPU_NODE, CPU_NODE, gpu_node(90402), None, gpu_node(90500))
    assert why(tmp_path) is None
    assert probe.gpu_architectures(tmp_path) == ["gfx942", "gfx950"]


def test_nodes_are_in_the_kernels_order(tmp_path):
    machine(tmp_path, *[CPU_NODE] * 2, *[gpu_node(90000 + i) for i in range(1, 10)])
    assert probe.gpu_architectures(tmp_path) == [f"gfx90{i}" for i in range(1, 10)]


@given(st.integers(8, 12), st.integers(0, 15), st.integers(0, 15))
def test_the_architectures_name(major, minor, stepping):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        machine(Path(folder), gpu_node(10000 * major + 100 * minor + stepping))
        assert probe.gpu_architectures(Path(folder)) == [f"gfx{major}{minor:x}{stepping:x}"]


@pytest.mark.parametrize("name", ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
def test_an_environment_that_hides_every_gpu(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "")
    reason = f"{name}= hides every GPU from this process"
    assert why(machine(tmp_path, gpu_node(90402))) == reason


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (None, "torch is not installed"),
        (TorchBuild("2.13.0+cpu", None, None), "torch 2.13.0+cpu is a CPU build, which drives no AMD GPU"),
        (
            TorchBuild("2.13.0+cu130", "13.0", None),
            "torch 2.13.0+cu130 is a CUDA build, which drives no AMD GPU",
        ),
        (TorchBuild("2.10.1+rocm7.0", None, "7.0"), "torch 2.10.1+rocm7.0 is older than 2.11"),
    ],
)
def test_a_torch_that_cannot_drive_it(tmp_path, monkeypatch, build, reason):
    monkeypatch.setattr(installation, "torch_build", lambda: build)
    found = probe.why_unavailable(machine(tmp_path, gpu_node(90402)))
    assert found.reason == reason
    assert "docs/installation.md, AMD" in found.fix
    assert why(machine(tmp_path / "bare", kfd=False)).startswith("no /dev/kfd"), "asked where there is a GPU"


@pytest.mark.parametrize(
    ("versions", "reason", "fix"),
    [
        ({"triton-rocm": "3.7.1"}, None, None),
        ({"pytorch-triton-rocm": "3.6.0"}, None, None),
        ({"triton": "3.6.0+git1b2c"}, None, None),  # AMD's images
        ({}, "Triton is not installed", "the Triton that torch 2.13.0\\+rocm7.1 was released with"),
        (
            {"triton": "3.7.1", "triton-rocm": "3.7.0"},
            "triton 3.7.1 and triton-rocm 3.7.0 are both installed",
            "pip uninstall triton triton-rocm, then install triton-rocm==3.7.0 again",
        ),
        (
            {"pytorch-triton-rocm": "3.5.1"},
            "pytorch-triton-rocm 3.5.1 is older than 3.6",
            "a newer ROCm build",
        ),
    ],
)
def test_the_triton_beside_it(tmp_path, monkeypatch, versions, reason, fix):
    installed(monkeypatch, versions)
    found = probe.why_unavailable(machine(tmp_path, gpu_node(90402)))
    if reason is None:
        assert found is None
    else:
        assert found.reason.startswith(reason)
        assert re.search(fix, found.fix)


def test_pip_is_asked_for_nothing_that_amd_builds_otherwise():
    """On a machine with AMD's torch and Triton, installing the package changes neither."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    asked = {re.match(r"[\w.-]+", line)[0] for line in project["dependencies"]}
    assert asked == {"sglang-platform-core", "numpy", "packaging"}
    assert list(project["optional-dependencies"]) == ["checks"], (
        "SGLang's own metadata asks for the CUDA stack"
    )


FAKE_AMDSMI = """
class AmdSmiException(Exception): pass
open_now = 0
def amdsmi_init():
    global open_now
    if FAILS: raise AmdSmiException("not initialised")
    open_now += 1
def amdsmi_shut_down():
    global open_now
    open_now -= 1
def amdsmi_get_processor_handles(): return list(range(COUNT))
"""


@pytest.mark.parametrize(
    ("fails", "count", "reason"),
    [
        (False, 8, None),
        (False, 0, "amdsmi counts no AMD GPU"),
        (True, 8, "amdsmi cannot count AMD GPUs (not initialised)"),
    ],
)
def test_amdsmi_is_asked_where_the_topology_is_missing(tmp_path, monkeypatch, fails, count, reason):
    text = FAKE_AMDSMI.replace("FAILS", str(fails)).replace("COUNT", str(count))
    (tmp_path / "amdsmi.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    found = why(machine(tmp_path, topology=False))
    assert found == (reason if reason is None else f"/{probe.NODES} does not exist, and {reason}")
    assert sys.modules["amdsmi"].open_now == 0
    monkeypatch.delitem(sys.modules, "amdsmi")


def test_neither_topology_nor_amdsmi(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert "amdsmi, the other way to count AMD GPUs, cannot be imported" in why(
        machine(tmp_path, topology=False)
    )


def test_activating_imports_nothing_heavy_and_answers_here(run_program, monkeypatch):
    for name in [name for name in os.environ if name.startswith("SGLANG_")]:
        monkeypatch.delenv(name)
    answer, reason, heavy = run_program("activate_rocm.py").stdout.splitlines()
    assert heavy == "[]"
    assert answer == ("sglang_platform.rocm.platform:RocmSRTPlatform" if reason == "None" else reason)
