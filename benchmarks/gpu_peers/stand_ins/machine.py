"""Stands in for what SGLang's kernels ask of the machine: torch is asked."""

import torch


def is_hip() -> bool:
    return torch.version.hip is not None


def is_cuda() -> bool:
    return torch.version.cuda is not None and torch.cuda.is_available()


def _architecture() -> str:
    return torch.cuda.get_device_properties(0).gcnArchName if is_hip() else ""


def is_gfx95_supported() -> bool:
    return _architecture().startswith("gfx95")


def is_gfx1250_supported() -> bool:
    return _architecture().startswith("gfx1250")


def get_device_core_count(index: int = 0) -> int:
    return torch.cuda.get_device_properties(index).multi_processor_count
