"""A selection as a requirements file, and as JSON."""

from __future__ import annotations

import platform
from typing import Any

from sglang_platform.devtools.requirements.selection import CUDA, NONE, ROCM, DevicePackages, Line
from sglang_platform.devtools.upgrade.release import HOST

__all__ = ["describe_selection", "requirements_file"]

_DEVICES = {
    NONE: "a machine without an accelerator",
    CUDA: "NVIDIA GPUs",
    ROCM: "AMD GPUs; torch, torchvision and Triton are AMD's builds, installed before",
}


def requirements_file(selection: DevicePackages, device: str, version: str | None) -> str:
    """The text that `pip install -r` reads. `version`: None for a checkout."""
    own = f"{HOST}=={version}" if version else "CHECKOUT/python"
    machine = (
        f"Python {'.'.join(platform.python_version_tuple()[:2])} on {platform.system()} {platform.machine()}"
    )
    lines = [
        f"# {HOST} {version or 'of a checkout'} for {_named(device)}.",
        f"# From its own metadata, for {machine}. After these packages:",
        f"#     pip install --no-deps {own}",
    ]
    if device == NONE:
        lines.append(
            "# Add --extra-index-url with PyTorch's index of CPU builds: the package index has torch's build for CUDA."
        )
    lines += [f"{one.requirement}  # {one.note}" if one.note else one.requirement for one in selection.kept]
    if selection.left_out:
        lines += ["# Left out:", *(f"#   {one.requirement}: {one.note}" for one in selection.left_out)]
    return "\n".join(lines) + "\n"


def describe_selection(selection: DevicePackages, device: str, version: str | None) -> dict[str, Any]:
    return {
        "host": version,
        "device": device,
        "requirements": _rows(selection.kept),
        "left_out": _rows(selection.left_out),
        "unknown": selection.unknown,
    }


def _named(device: str) -> str:
    return _DEVICES.get(device, f"the device {device!r}, with the torch of its own torch plugin")


def _rows(lines: list[Line]) -> list[dict[str, str]]:
    return [{"requirement": one.requirement, "note": one.note} for one in lines]
