"""The device operations of any device that torch has a module for, through `torch.get_device_module`.

A backend adds its identity (`_enum`, `device_name`, `device_type`), its probe and what really differs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.contract.types import DeviceCapability
from sglang_platform.core.portable.torch.visibility import only_device, shown_device

if TYPE_CHECKING:
    import torch

__all__ = ["TorchDeviceMixin"]


class TorchDeviceMixin(DeviceMixin):
    """A device behind `torch.<device_type>`, whose module offers what `torch.accelerator` devices have: memory figures,
    synchronisation, and where the driver knows it properties with a `uuid`.

    For a device that a torch plugin brings (`torch_npu`, `torch_mlu`, `torch_musa`): import that plugin at the top of
    the module of the platform class, since SGLang uses the device before it calls `init_backend()`.

    Importing this module and making an instance touch no device; the first query of a device's properties initialises
    torch's state for it, as any use of that module does. The answers of the base class that are right here are not
    repeated: the collectives' backend, the profiler activity, and seeding, since `torch.manual_seed` seeds every
    device.
    """

    _visibility_variables: ClassVar[Sequence[str]] = ()
    """The environment variables that restrict which devices a process sees, in order of precedence. If none of them is
    set, the last one is used."""

    def _module(self) -> Any:
        """torch's module for this device type, e.g. `torch.cuda`."""
        import torch

        return torch.get_device_module(self.device_type)

    def get_device(self, device_id: int | None = 0) -> torch.device:
        """`<device_type>:<device_id>`, or `<device_type>` for None."""
        import torch

        return (
            torch.device(self.device_type) if device_id is None else torch.device(self.device_type, device_id)
        )

    def set_device(self, device: torch.device) -> None:
        """Makes `device` current in this thread."""
        self._module().set_device(device)

    def get_device_name(self, device_id: int = 0) -> str:
        """The product name, as the driver gives it; `device_name` where torch's module has none."""
        ask = getattr(self._module(), "get_device_name", None)
        return self.device_name if ask is None else str(ask(device_id))

    def get_device_uuid(self, device_id: int = 0) -> str:
        """The driver's UUID without a prefix; hosts write `GPU-` before it where a protocol wants that.

        Where torch's properties have none: the machine's id, the device type, and the device as the driver counts it.
        """
        driver = getattr(self._properties(device_id), "uuid", None)
        if driver is not None:
            return str(driver)
        return f"{_machine_id()}-{self.device_type}-{shown_device(device_id, self._visibility_variables)}"

    def get_device_capability(self, device_id: int = 0) -> DeviceCapability | None:
        """The two numbers by which the vendor tells generations of its devices apart; None where it has none."""
        ask = getattr(self._module(), "get_device_capability", None)
        numbers = None if ask is None else ask(device_id)
        return None if numbers is None else DeviceCapability(*numbers)

    def get_device_total_memory(self, device_id: int = 0) -> int:
        """The device's memory in bytes."""
        total = getattr(self._properties(device_id), "total_memory", None)
        return self.get_available_memory(device_id)[1] if total is None else int(total)

    def _properties(self, device: torch.device | int | None) -> Any:
        """What torch's module tells of a device; None where it tells nothing."""
        ask = getattr(self._module(), "get_device_properties", None)
        return None if ask is None else ask(device)

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        """`(free, total)` in bytes as the driver counts: memory cached by torch is not free.

        Of an integrated device, whose memory is the machine's: what the machine has available, page cache included.
        """
        free, total = self._memory(device_id)
        return int(free), int(total)

    def _memory(self, device: torch.device | int | None) -> tuple[int, int]:
        import torch

        module = self._module()
        ask = getattr(module, "mem_get_info", None) or torch.accelerator.get_memory_info
        free, total = ask(device)
        if getattr(self._properties(device), "is_integrated", False):
            available = _machines_available_memory()
            if available is not None:
                free = min(available, total - module.memory_reserved(device))
        return free, total

    def get_current_memory_usage(self, device: torch.device | None = None) -> float:
        """The most bytes that tensors of this process held at once on `device` (None: the current one); out of tree all
        bytes in use, since the host takes the rest for free."""
        if self.is_out_of_tree():
            free, total = self._memory(device)
            return float(total - free)
        return float(self._module().max_memory_allocated(device))

    def empty_cache(self) -> None:
        """Gives torch's cached blocks back to the driver; nothing where torch has not used the device yet."""
        self._module().empty_cache()

    def synchronize(self) -> None:
        """Waits for the current device; nothing where torch has not used the device yet, so that the call does not
        initialise it."""
        module = self._module()
        if module.is_initialized():
            module.synchronize()

    def is_pin_memory_available(self, device: torch.device | str | None = None) -> bool:
        """True for every copy to the device; page-locked memory gains nothing for tensors that stay on the CPU."""
        if device is None:
            return True
        import torch

        return bool(torch.device(device).type != "cpu")

    @contextmanager
    def reindex_device_id(self, device_id: int) -> Iterator[int]:
        """Restricts processes started inside to the device `device_id`, through the environment; yields 0.

        Raises ValueError where the environment shows no such device. The environment is restored on every way
        out.
        """
        if not self._visibility_variables:
            with super().reindex_device_id(device_id) as index:
                yield index
            return
        with only_device(device_id, self._visibility_variables, self._visibility_variables[-1]) as index:
            yield index


def _machine_id() -> str:
    """The same after a restart: what the system was given at its installation, or the address of its network."""
    for file in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        if file.is_file() and (found := file.read_text().strip()):
            return found
    return f"{uuid.getnode():012x}"


def _machines_available_memory() -> int | None:
    """Bytes that programs can have, page cache included; None where the system does not tell."""
    file = Path("/proc/meminfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)
