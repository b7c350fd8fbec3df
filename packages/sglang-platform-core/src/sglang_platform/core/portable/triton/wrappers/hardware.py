"""The properties of a package's devices that the wrappers use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from sglang_platform.core.portable.triton.architecture import Architectures
from sglang_platform.core.portable.triton.wrappers.record import KernelRecord

__all__ = ["Hardware"]


@dataclass(frozen=True)
class Hardware:
    """records: of the architectures. fp8_formats: the 8-bit floats of its caches, with the name that its kernels have
    for each. cache_modifier, eviction_policy: `tl.load`'s, for what a kernel reads once."""

    records: Architectures[KernelRecord]
    fp8_formats: Mapping[torch.dtype, str]
    cache_modifier: str = ""
    eviction_policy: str = ""

    def of(self, device: torch.device) -> KernelRecord:
        """The record for `device`."""
        return self.records.of(device)

    def fp8(self, dtype: torch.dtype, device: torch.device) -> tuple[str, bool]:
        """The kernels' name of `dtype`, and whether the device converts float32 to it in one instruction.

        ("", False) for a type that is no 8-bit float. Raises ValueError for an 8-bit float that the kernels do not
        know.
        """
        name = self.fp8_formats.get(dtype, "")
        if not name and dtype.is_floating_point and dtype.itemsize == 1:
            known = ", ".join(map(str, self.fp8_formats))
            raise ValueError(f"{dtype} is no type of a cache on these devices ({known})")
        return name, name in self.of(device).converts_fp8
