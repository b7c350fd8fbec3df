"""The device contract, shared by the LLM runtime and the diffusion runtime.

A vendor writes one `MyDeviceMixin(DeviceMixin)` and uses it in both: ``class MySRTPlatform(SRTPlatform,
MyDeviceMixin)`` and ``class MyMMPlatform(MMPlatform, MyDeviceMixin)``. The two bases may stand in either
order, since `SRTPlatform` and `MMPlatform` redefine nothing that is defined here.

Names, parameters and defaults follow SGLang 0.5.23 (`sglang.srt.platforms.device_mixin`). Where a docstring
names no caller, the host calls nothing there yet; core and the conformance suite do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from sglang_platform.core.contract import checks, members
from sglang_platform.core.contract.types import CpuArchEnum, DeviceCapability, PlatformEnum
from sglang_platform.core.host import meet_undecorated

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceMixin"]

_DISTRIBUTED_BACKENDS = {
    "cuda": "nccl",
    "xpu": "xccl",
    "npu": "hccl",
    "hpu": "hccl",
    "cpu": "gloo",
    "musa": "mccl",
}
_CUDA_ALIKE = frozenset({"CUDA", "ROCM", "MUSA", "SAIL"})
# torch profiles every device that is not in this table as PrivateUse1.
_PROFILER_ACTIVITIES = {
    "cpu": "CPU",
    "mps": "CPU",
    "cuda": "CUDA",
    "xpu": "XPU",
    "hpu": "HPU",
    "mtia": "MTIA",
}


@members.register_contract
class DeviceMixin:
    """What a device is and the operations every runtime needs from it.

    A device must implement the eight methods that raise NotImplementedError here; `portable.torch.device` has them
    for a device that torch reaches. Subclasses are checked when they are created, see `contract.checks`, and before
    the host starts, see `contract.completeness`.
    """

    _defines_contract: ClassVar[bool] = True

    _enum: PlatformEnum = PlatformEnum.UNSPECIFIED
    """Which platform this is. May be set per instance. Compared by member name, so a host's own enum serves
    too."""

    device_name: str = "unknown"
    """Short name for people and logs, e.g. `"cuda"`, `"my_device"`."""

    device_type: str = "cpu"
    """The type of `torch.device` that tensors live on: `"cuda"`, `"cpu"`, or a name of the vendor's own
    backend. The host puts every tensor of the model on this type."""

    extra_public_names: frozenset[str] = frozenset()
    """Public names that a vendor's classes carry beyond the contract. They are not reported as unknown;
    nobody but the vendor calls them. The sets of all base classes count together."""

    def __init_subclass__(cls, *, rebased_by_host: bool = False, **kwargs: Any) -> None:
        """Checks the class against the contract; raises ContractError with every problem found.

        `rebased_by_host` marks a class that a host adapter derives from one that has been checked already;
        the attribute `_rebased_by_host = True` in the class body says the same.
        """
        if rebased_by_host:
            cls._rebased_by_host = True  # type: ignore[attr-defined]
        if not vars(cls).get("_rebased_by_host"):
            # In a re-based class the host's base follows in the MRO; its check would reject the contract's names.
            super().__init_subclass__(**kwargs)
        if members.defines_contract(cls):
            members.register_contract(cls)
        else:
            checks.check_class(cls)
            meet_undecorated()

    # Identity

    def _is(self, member: str) -> bool:
        return getattr(self._enum, "name", None) == member

    def is_cuda(self) -> bool:
        """An NVIDIA GPU."""
        return self._is("CUDA")

    def is_rocm(self) -> bool:
        """An AMD GPU (its `device_type` is `"cuda"` all the same)."""
        return self._is("ROCM")

    def is_cpu(self) -> bool:
        """The host's own CPU platform; an out-of-tree device of type `"cpu"` answers False."""
        return self._is("CPU")

    def is_xpu(self) -> bool:
        """An Intel GPU."""
        return self._is("XPU")

    def is_musa(self) -> bool:
        """A Moore Threads GPU."""
        return self._is("MUSA")

    def is_npu(self) -> bool:
        """A Huawei Ascend NPU."""
        return self._is("NPU")

    def is_tpu(self) -> bool:
        """A Google TPU."""
        return self._is("TPU")

    def is_mps(self) -> bool:
        """An Apple GPU."""
        return self._is("MPS")

    def is_sail(self) -> bool:
        """A SAIL device; the host knows it from 0.5.23."""
        return self._is("SAIL")

    def is_out_of_tree(self) -> bool:
        """True for a platform that is not part of the host. The host calls most factories of `SRTPlatform` only if it
        is."""
        return self._is("OOT")

    def is_cuda_alike(self) -> bool:
        """CUDA, ROCm, MUSA or SAIL: devices behind an interface like `torch.cuda`'s.

        The two runtimes read it for different things. The LLM runtime decides with it which kernels can be
        imported and launched (its CUDA extension modules, and the second stream of the KV pools). The
        diffusion runtime decides with it whether graphs are captured and which communicator a group gets
        (PyNccl and the custom all-reduce). An out-of-tree device is not CUDA-alike, even where its
        `device_type` is `"cuda"`.
        """
        return getattr(self._enum, "name", None) in _CUDA_ALIKE

    @cached_property
    def cpu_arch(self) -> CpuArchEnum:
        """`get_cpu_architecture()`, asked once per instance."""
        return self.get_cpu_architecture()

    # What a device must implement

    def _missing(self, call: str, answer: str) -> str:
        return (
            f"{type(self).__name__} does not implement {call}: it must return {answer}. "
            "Define it in the platform's device mixin."
        )

    def get_device(self, device_id: int | None = 0) -> torch.device:
        """The `torch.device` with index `device_id`, as this process numbers its devices.

        None asks for the device type without an index. The host asks at start-up (None, for its `device`
        argument) and wherever it needs a worker's device.
        """
        raise NotImplementedError(self._missing("get_device(device_id=0)", "a torch.device"))

    def set_device(self, device: torch.device) -> None:
        """Makes `device` the current one of this thread. The diffusion runtime calls it once in each
        worker."""
        raise NotImplementedError(
            self._missing("set_device(device)", "None, after making the device current")
        )

    def get_device_name(self, device_id: int = 0) -> str:
        """The product name, as its vendor writes it. The diffusion runtime chooses tuned configurations by it."""
        raise NotImplementedError(self._missing("get_device_name(device_id=0)", "the product name as a str"))

    def get_device_uuid(self, device_id: int = 0) -> str:
        """A name that no other device on any machine has, the same in every process and after a restart.

        The host keys its weight cache, autotuning results and weight updates by it.
        """
        raise NotImplementedError(
            self._missing("get_device_uuid(device_id=0)", "a str that identifies the device everywhere")
        )

    def get_device_capability(self, device_id: int = 0) -> DeviceCapability | None:
        """The device's generation, or None where the vendor numbers none."""
        raise NotImplementedError(
            self._missing("get_device_capability(device_id=0)", "a DeviceCapability, or None if it has none")
        )

    def get_device_total_memory(self, device_id: int = 0) -> int:
        """The device's memory in bytes. The host sizes the KV cache of an out-of-tree device from it."""
        raise NotImplementedError(
            self._missing("get_device_total_memory(device_id=0)", "the memory of the device in bytes, an int")
        )

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        """`(free, total)` in bytes, counting what other processes hold."""
        raise NotImplementedError(
            self._missing("get_available_memory(device_id=0)", "(free, total), both in bytes")
        )

    def get_current_memory_usage(self, device: torch.device | None = None) -> float:
        """The peak of memory allocated in this process, in bytes; `device` None is the current device.

        For an out-of-tree device the host takes `get_device_total_memory() - get_current_memory_usage()` as
        free memory, so a device shared with other processes must count theirs in.
        """
        raise NotImplementedError(
            self._missing("get_current_memory_usage(device=None)", "the peak memory in use in bytes, a float")
        )

    # Safe defaults

    def empty_cache(self) -> None:
        """Gives memory that the allocator caches back to the device. The host calls it when it flushes its
        cache, reloads weights or goes idle."""

    def synchronize(self) -> None:
        """Waits until all work queued on the current device is done. The host calls it before it reads
        timings and around weight transfers."""

    def is_pin_memory_available(self, device: torch.device | str | None = None) -> bool:
        """Whether page-locked host memory speeds up copies to `device` (None: to this platform's devices).

        The host pins its staging tensors where the answer is True.
        """
        return False

    @contextmanager
    def reindex_device_id(self, device_id: int) -> Iterator[int]:
        """While active, only the physical device `device_id` is visible; yields the index it has then.

        The host's launcher enters it around the start of a worker process, which inherits the restriction,
        when `SGLANG_ONE_VISIBLE_DEVICE_PER_PROCESS` is set. The default restricts nothing.
        """
        yield device_id

    def get_torch_distributed_backend_str(self) -> str:
        """The backend for `torch.distributed.init_process_group`, by `device_type`; for an unknown one what its torch
        plugin registered with torch, or `"gloo"`.

        Its `send` of some KiB must not keep the stream until the peer receives: stages of a pipeline all send before
        they receive.
        """
        backend = getattr(sys.modules.get("torch.distributed"), "Backend", None)
        registered = {} if backend is None else backend.default_device_backend_map
        return str({**registered, **_DISTRIBUTED_BACKENDS}.get(self.device_type, "gloo"))

    def get_communicator_class(self) -> type | None:
        """The class that carries a group's collectives, or None for the host's own."""
        return None

    def verify_quantization(self, quant: str) -> None:
        """Raises ValueError where the device cannot run the quantisation method `quant`."""

    def get_torch_profiler_activity_str(self) -> str:
        """The name of this device's member of `torch.profiler.ProfilerActivity`.

        The host's profiler adds it to the activities it can record, for out-of-tree platforms.
        """
        return _PROFILER_ACTIVITIES.get(self.device_type, "PrivateUse1")

    def get_torch_profiler_activity(self) -> torch.profiler.ProfilerActivity:
        """The member of `torch.profiler.ProfilerActivity` that records this device."""
        from torch.profiler import ProfilerActivity

        activity: torch.profiler.ProfilerActivity = getattr(
            ProfilerActivity, self.get_torch_profiler_activity_str()
        )
        return activity

    @classmethod
    def inference_mode(cls) -> AbstractContextManager[Any]:
        """The context in which a runtime runs its models."""
        import torch

        mode: AbstractContextManager[Any] = torch.inference_mode(mode=True)
        return mode

    @classmethod
    def seed_everything(cls, seed: int | None = None) -> None:
        """Seeds Python, numpy where it is installed, and torch on every device; None changes nothing."""
        if seed is None:
            return
        import random
        from importlib.util import find_spec

        import torch

        random.seed(seed)
        torch.manual_seed(seed)
        if find_spec("numpy") is not None:
            import numpy as np

            np.random.seed(seed)

    @classmethod
    def get_cpu_architecture(cls) -> CpuArchEnum:
        """The processor family this process runs on."""
        import platform

        machine = platform.machine().lower()
        if machine in {"x86_64", "amd64", "i386", "i686"}:
            return CpuArchEnum.X86
        if machine in {"arm64", "aarch64"}:
            return CpuArchEnum.ARM
        return CpuArchEnum.UNSPECIFIED

    def __repr__(self) -> str:
        return f"{type(self).__name__}(device={self.device_name})"
