"""Checks whether this process can use an AMD GPU through the installed torch, and why not.

Reads `/dev/kfd` and the kernel driver's topology in sysfs, and falls back to amdsmi if the topology cannot be read.
Neither creates a HIP context.
"""

from __future__ import annotations

import os
from pathlib import Path

from sglang_platform.core import PlatformUnavailable
from sglang_platform.core.portable.torch.visibility import hidden_by
from sglang_platform.rocm import installation

__all__ = ["gpu_architectures", "why_unavailable"]

NODES = "sys/class/kfd/kfd/topology/nodes"


def why_unavailable(root: Path = Path("/")) -> PlatformUnavailable | None:
    """Why ROCm cannot be used in this process; None if no check fails.

    `root` is the root of the file system, for tests.
    """
    no_device = _no_driver(root) or _no_gpu(root) or _hidden()
    return PlatformUnavailable(no_device) if no_device is not None else installation.why_unfit()


def gpu_architectures(root: Path = Path("/")) -> list[str]:
    """The architectures of the GPUs that this process may use, e.g. `["gfx942", "gfx942"]`, in the kernel's
    order.

    Read from the topology of the kernel's compute driver: a node that is a GPU has SIMD units and a
    `gfx_target_version` of 10000 * major + 100 * minor + stepping. A GPU that a container was not given has a
    node that cannot be read.
    """
    found = []
    nodes = root / NODES
    for node in sorted(nodes.iterdir(), key=lambda path: path.name.zfill(8)) if nodes.is_dir() else ():
        properties = _properties(node / "properties")
        if properties.get("simd_count", 0) > 0:
            version = properties.get("gfx_target_version", 0)
            found.append(f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}")
    return found


def _properties(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text().splitlines()
    except OSError:  # a device without permission for this process
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _no_driver(root: Path) -> str | None:
    kfd = root / "dev/kfd"
    if not kfd.exists():
        if (root / "sys/module/amdgpu").exists():
            return (
                "no /dev/kfd, although the amdgpu driver is loaded: in a container, start it with "
                "--device=/dev/kfd --device=/dev/dri"
            )
        return "no /dev/kfd: no AMD GPU driver is loaded"
    if not os.access(kfd, os.R_OK | os.W_OK):
        return "/dev/kfd may not be opened by this user: add it to the groups render and video"
    return None


def _no_gpu(root: Path) -> str | None:
    if not (root / NODES).is_dir():
        return _amdsmi_refuses()
    if not gpu_architectures(root):
        return f"no AMD GPU that this process may use: none of the nodes in /{NODES} is one"
    return None


def _amdsmi_refuses() -> str | None:
    unread = f"/{NODES} does not exist"
    try:
        import amdsmi
    except (ImportError, OSError, KeyError) as error:  # amdsmi loads its library at import
        return f"{unread}, and amdsmi, the other way to count AMD GPUs, cannot be imported ({error})"
    try:
        amdsmi.amdsmi_init()
        try:
            count = len(amdsmi.amdsmi_get_processor_handles())
        finally:
            amdsmi.amdsmi_shut_down()
    except amdsmi.AmdSmiException as error:
        return f"{unread}, and amdsmi cannot count AMD GPUs ({error})"
    return None if count else f"{unread}, and amdsmi counts no AMD GPU"


def _hidden() -> str | None:
    setting = hidden_by(["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
    return None if setting is None else f"{setting} hides every GPU from this process"
