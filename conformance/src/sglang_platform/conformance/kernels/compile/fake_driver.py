"""A Triton driver without a device.

Under `pretend(target)` a launch wrapper runs on CPU tensors as it would on that target: Triton specialises on the real
arguments, compiles for the target, refuses what needs more shared memory or threads than the target has, and hands the
grid over. Nothing is executed; what would have been launched is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sglang_platform.core.contract.kernels import KernelTarget
from sglang_platform.core.portable.triton.architecture import for_architecture

__all__ = ["LaunchedKernel", "pretend"]

# The CUDA programming guide's limits of a grid; HIP's are not smaller.
_GRID = (2**31 - 1, 65535, 65535)


@dataclass
class LaunchedKernel:
    """One launch that would have happened. `kernel` is Triton's `CompiledKernel`."""

    name: str
    grid: tuple[int, int, int]
    kernel: Any
    arguments: tuple[Any, ...] = field(repr=False)


class _Utilities:
    """What Triton asks of a driver's native part."""

    def __init__(self, target: KernelTarget) -> None:
        self._target = target

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": self._target.shared,
            "max_num_regs": 65536,
            "multiprocessor_count": self._target.processors,
            "warpSize": self._target.warp,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }

    def load_binary(self, name: str, kernel: Any, shared: int, device: int) -> tuple[Any, ...]:
        # module, function, registers, spills, threads per block
        return name, name, 0, 0, 1024


_numbers: dict[str, int] = {}


class _Driver:
    def __init__(self, target: KernelTarget, triton_target: Any) -> None:
        self.target = target
        self.launches: list[LaunchedKernel] = []
        self.utils = _Utilities(target)
        self.launcher_cls = self._launcher
        self._triton_target = triton_target
        # Triton keeps compiled kernels per device: a number of its own for each target keeps them apart.
        self._device = _numbers.setdefault(target.name, 1000 + len(_numbers))

    def _launcher(self, src: Any, metadata: Any) -> Any:
        def launch(x: int, y: int, z: int, stream: Any, function: Any, *rest: Any) -> None:
            for size, limit, axis in zip((x, y, z), _GRID, "xyz", strict=True):
                if not isinstance(size, int) or not 0 <= size <= limit:
                    raise ValueError(f"{src.name}: grid {axis} is {size!r}; a device takes 0 to {limit}")
            # A kernel that was loaded under an earlier driver for this target is launched under the present one.
            _present().launches.append(LaunchedKernel(src.name, (x, y, z), src.compiled, rest[4:]))

        return launch

    def is_active(self) -> bool:
        return True

    def get_current_target(self) -> Any:
        return self._triton_target

    def get_current_device(self) -> int:
        return self._device

    def set_current_device(self, device: int) -> None:
        raise RuntimeError(f"a kernel wrapper switches to device {device}: the host has set it already")

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")


def _present() -> _Driver:
    from triton.runtime.driver import driver

    assert isinstance(driver.active, _Driver)
    return driver.active


@contextmanager
def pretend(target: KernelTarget) -> Iterator[list[LaunchedKernel]]:
    """Runs launch wrappers inside as on `target`; yields the list of launches, in order."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import CompiledKernel
    from triton.runtime.driver import driver

    with for_architecture(target):
        fake = _Driver(target, GPUTarget(target.backend, target.arch, target.warp))
        outer = driver._active
        init_handles = CompiledKernel._init_handles

        def remember(self: Any) -> None:
            self.src.compiled = self
            init_handles(self)

        CompiledKernel._init_handles = remember
        driver.set_active(fake)
        try:
            yield fake.launches
        finally:
            driver._active = outer
            CompiledKernel._init_handles = init_handles
