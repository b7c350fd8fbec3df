"""Checks whether this process can use an NVIDIA GPU through the installed torch, and why not.

Cheap checks come first: device files, the environment, NVML, then the build of torch. None of them creates a CUDA
context. Other problems show later, when a worker first uses the device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sglang_platform.core import PlatformUnavailable
from sglang_platform.core.portable.torch.visibility import hidden_by
from sglang_platform.cuda import installation

__all__ = ["compute_capabilities", "why_unavailable"]

_DISCRETE = re.compile(r"nvidia\d+")
# WSL reaches the GPU through Windows, Jetson's integrated GPU has its own drivers. Neither needs NVML.
_OTHER_WAYS = ("dev/dxg", "dev/nvhost-ctrl-gpu", "dev/nvgpu/igpu0/ctrl", "dev/nvmap")


def why_unavailable(root: Path = Path("/")) -> PlatformUnavailable | None:
    """Why CUDA cannot be used in this process; None if no check fails.

    `root` is the root of the file system, for tests.
    """
    no_device = _no_device(root) or _hidden()
    return PlatformUnavailable(no_device) if no_device is not None else installation.why_unfit(_driver())


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
    """The compute capability of each GPU that NVML sees, without initialising CUDA; empty if NVML cannot be used."""
    try:
        with _nvml() as nvml:
            handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
            return [tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)) for handle in handles]
    except _NvmlSilent:
        return []


class _NvmlSilent(Exception):
    """NVML is missing or does not respond. That is inconclusive: CUDA may work in a container without NVML."""


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
    except _NvmlRefuses as error:
        return f"NVML cannot reach the driver: {error}"
    except _NvmlSilent:
        pass
    return None


def _driver() -> int | None:
    """The newest CUDA that the driver supports, as 1000 * major + 10 * minor; None if NVML cannot be used."""
    try:
        with _nvml() as nvml:
            return int(nvml.nvmlSystemGetCudaDriverVersion_v2())
    except _NvmlSilent:
        return None


def _hidden() -> str | None:
    setting = hidden_by(["CUDA_VISIBLE_DEVICES"])
    return None if setting is None else f"{setting} hides every GPU from this process"
