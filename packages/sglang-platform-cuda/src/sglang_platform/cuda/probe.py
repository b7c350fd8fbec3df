"""Is there an NVIDIA GPU here that this process can use through the installed torch? And if not, why not?

Cheap questions first: device files, the environment, NVML, then the build of torch, none of which makes a
CUDA context. What they cannot tell is told later, when a worker first uses the device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sglang_platform.core.portable.torch.build import torch_build
from sglang_platform.core.portable.torch.visibility import hidden_by

__all__ = ["compute_capabilities", "why_unavailable"]

_DISCRETE = re.compile(r"nvidia\d+")
# WSL reaches the GPU through Windows, Jetson's integrated GPU has its own drivers. Neither needs NVML.
_OTHER_WAYS = ("dev/dxg", "dev/nvhost-ctrl-gpu", "dev/nvgpu/igpu0/ctrl", "dev/nvmap")


def why_unavailable(root: Path = Path("/")) -> str | None:
    """The reason why CUDA cannot be used in this process, or None if nothing speaks against it.

    `root` is the root of the file system, for tests.
    """
    return _no_device(root) or _hidden() or _no_cuda_torch()


def _no_device(root: Path) -> str | None:
    if any((root / way).exists() for way in _OTHER_WAYS):
        return None
    nodes = [node for node in _entries(root / "dev") if _DISCRETE.fullmatch(node.name)]
    if nodes:
        return _nvml_refuses()
    if (root / "proc/driver/nvidia/version").exists():
        return (
            "no /dev/nvidia<N>, although the NVIDIA driver is loaded: in a container, start it with its GPUs "
            "(--gpus all)"
        )
    return "no NVIDIA GPU: no /dev/nvidia<N>, and no NVIDIA driver is loaded"


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def compute_capabilities() -> list[tuple[int, int]]:
    """The compute capability of each GPU that NVML sees, without touching CUDA; empty where NVML cannot
    tell."""
    try:
        with _nvml() as nvml:
            handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
            return [tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)) for handle in handles]
    except _NvmlSilent:
        return []


class _NvmlSilent(Exception):
    """NVML is not there or does not answer. That decides nothing: containers may lack it and compute all the
    same."""


class _NvmlRefuses(_NvmlSilent):
    """NVML says that the driver cannot be used."""


@contextmanager
def _nvml() -> Iterator[Any]:
    try:
        import pynvml
    except ImportError as error:
        raise _NvmlSilent(str(error)) from error
    try:
        pynvml.nvmlInit()
        try:
            yield pynvml
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        decisive = (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
        raise (_NvmlRefuses if error.value in decisive else _NvmlSilent)(str(error)) from error


def _nvml_refuses() -> str | None:
    try:
        with _nvml() as nvml:
            if nvml.nvmlDeviceGetCount() == 0:
                return "NVML counts no GPU that this process may use"
            return _driver_too_old(nvml.nvmlSystemGetCudaDriverVersion_v2())
    except _NvmlRefuses as error:
        return f"NVML cannot reach the driver: {error}"
    except _NvmlSilent:
        return None


def _driver_too_old(driver: int) -> str | None:
    """CUDA runs on a driver of its own major version or a newer one. `driver` is 1000 * major + 10 *
    minor."""
    build = torch_build()
    if build is None or build.cuda is None or driver // 1000 >= int(build.cuda.partition(".")[0]):
        return None
    found = f"{driver // 1000}.{driver % 1000 // 10}"
    return (
        f"the NVIDIA driver serves CUDA {found}, and torch {build.version} was built for CUDA {build.cuda}: "
        "update the driver, or install a torch for the older CUDA"
    )


def _hidden() -> str | None:
    setting = hidden_by(["CUDA_VISIBLE_DEVICES"])
    return None if setting is None else f"{setting} hides every GPU from this process"


def _no_cuda_torch() -> str | None:
    build = torch_build()
    if build is None:
        return "torch is not installed"
    if build.hip is not None:
        return f"torch {build.version} is a ROCm build, which drives AMD GPUs only"
    if build.cuda is None:
        return f"torch {build.version} was built without CUDA: install a CUDA build of torch"
    return None
