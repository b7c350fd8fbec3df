"""The device operations that CUDA and ROCm share: torch drives both through `torch.cuda`.

A backend adds its identity (`_enum`, `device_name`), its probe and what really differs. `device_type` is
`"cuda"` on both, the only name torch has for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.contract.types import DeviceCapability
from sglang_platform.core.portable.torch.visibility import only_device

if TYPE_CHECKING:
    import torch

__all__ = ["TorchDeviceMixin"]


class TorchDeviceMixin(DeviceMixin):
    """A GPU behind `torch.cuda`.

    Importing this module and making an instance touch no device; the first query of a device's properties
    initialises torch's CUDA state, as any use of `torch.cuda` does. What the base class answers already is
    right here and not
    repeated: NCCL (ROCm's RCCL goes by the same name), the profiler activity `CUDA`, and seeding, since
    `torch.manual_seed` seeds every GPU.
    """

    device_type = "cuda"

    _visibility_variables: ClassVar[Sequence[str]] = ("CUDA_VISIBLE_DEVICES",)
    """The environment variables that restrict which devices a process sees, the one that wins first."""

    def get_device(self, device_id: int | None = 0) -> torch.device:
        """`cuda:<device_id>`, or `cuda` for None."""
        import torch

        return torch.device("cuda") if device_id is None else torch.device("cuda", device_id)

    def set_device(self, device: torch.device) -> None:
        """Makes `device` current in this thread."""
        import torch

        torch.cuda.set_device(device)

    def get_device_name(self, device_id: int = 0) -> str:
        """The product name, e.g. `"NVIDIA H200"` or `"AMD Instinct MI300X"`."""
        import torch

        return str(torch.cuda.get_device_name(device_id))

    def get_device_uuid(self, device_id: int = 0) -> str:
        """The UUID without a prefix; hosts write `GPU-` before it where a protocol wants that."""
        import torch

        return str(torch.cuda.get_device_properties(device_id).uuid)

    def get_device_capability(self, device_id: int = 0) -> DeviceCapability | None:
        """CUDA: the compute capability. ROCm: the first two numbers of the architecture, (9, 4) for
        gfx942."""
        import torch

        major, minor = torch.cuda.get_device_capability(device_id)
        return DeviceCapability(major, minor)

    def get_device_total_memory(self, device_id: int = 0) -> int:
        """The device's memory in bytes."""
        import torch

        return int(torch.cuda.get_device_properties(device_id).total_memory)

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        """`(free, total)` in bytes as the driver counts: memory cached by torch is not free."""
        import torch

        free, total = torch.cuda.mem_get_info(device_id)
        return int(free), int(total)

    def get_current_memory_usage(self, device: torch.device | None = None) -> float:
        """The most bytes that tensors of this process held at once on `device` (None: the current one)."""
        import torch

        return float(torch.cuda.max_memory_allocated(device))

    def empty_cache(self) -> None:
        """Gives torch's cached blocks back to the driver; nothing where torch has not used the GPU yet."""
        import torch

        torch.cuda.empty_cache()

    def synchronize(self) -> None:
        """Waits for the current device; nothing where torch has not used the GPU yet, so that asking starts
        nothing."""
        import torch

        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def is_pin_memory_available(self, device: torch.device | str | None = None) -> bool:
        """True for every copy to a GPU; page-locked memory gains nothing for tensors that stay on the CPU."""
        return str(device).partition(":")[0] != "cpu"

    @contextmanager
    def reindex_device_id(self, device_id: int) -> Iterator[int]:
        """Restricts processes started inside to the device `device_id`, through the environment; yields 0.

        Raises ValueError where the environment shows no such device. The environment is restored on every way
        out.
        """
        with only_device(device_id, self._visibility_variables, "CUDA_VISIBLE_DEVICES") as index:
            yield index
