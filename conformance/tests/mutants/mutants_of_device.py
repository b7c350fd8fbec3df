"""Level 2 mutants: device operations that answer in the wrong unit or type, or differently each time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mutant import mutant

from sglang_platform.conformance.reference.platform import ReferencePlatform


@mutant(
    check="contract.get_device_is_usable",
    defect="get_device() answers the device's name, not a torch.device",
    says="not a torch.device",
)
class DeviceAsText(ReferencePlatform):
    def get_device(self, device_id: int = 0) -> Any:
        return f"cpu:{device_id}"


@mutant(
    check="contract.memory_is_in_bytes",
    defect="the total memory is in KiB, as the driver reports it",
    says="KiB",
)
class TotalMemoryInKiB(ReferencePlatform):
    def get_device_total_memory(self, device_id: int = 0) -> int:
        return super().get_device_total_memory(device_id) // 1024


@mutant(
    check="contract.memory_is_in_bytes",
    defect="(total, free) instead of (free, total)",
    says="more is free than there is",
)
class TotalAndFreeSwapped(ReferencePlatform):
    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        free, total = super().get_available_memory(device_id)
        return total, free


@mutant(
    check="contract.memory_is_in_bytes",
    defect="free memory is in bytes and the total beside it in MiB",
    says="more is free than there is",
)
class AvailableInTwoUnits(ReferencePlatform):
    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        free, total = super().get_available_memory(device_id)
        return free, total >> 20


@mutant(
    check="contract.device_is_described",
    defect="the capability is a text, and every comparison with a version raises",
    says="get_device_capability",
)
class CapabilityAsText(ReferencePlatform):
    def get_device_capability(self, device_id: int = 0) -> Any:
        return "9.0"


@mutant(
    check="contract.uuid_is_stable",
    defect="the uuid is made up in each process, so caches keyed by it are never found again",
    says="another process",
)
class UuidPerProcess(ReferencePlatform):
    def get_device_uuid(self, device_id: int = 0) -> str:
        return f"device-{os.getpid()}-{device_id}"


@mutant(
    check="contract.reindexing_is_undone",
    defect="the visibility variable is put back only where nothing raised",
    says="after an error",
)
class VisibilityNotRestored(ReferencePlatform):
    @contextmanager
    def reindex_device_id(self, device_id: int) -> Iterator[int]:
        before = os.environ.get("MYCHIP_VISIBLE_DEVICES", "0")
        os.environ["MYCHIP_VISIBLE_DEVICES"] = str(device_id)
        yield 0
        if before == "0":
            del os.environ["MYCHIP_VISIBLE_DEVICES"]


@mutant(
    check="contract.defaults_keep_their_types",
    defect="the distributed backend is named after the device, and torch.distributed knows no such backend",
    says="torch.distributed does not know",
)
class UnknownDistributedBackend(ReferencePlatform):
    def get_torch_distributed_backend_str(self) -> str:
        return "mychip"


@mutant(
    check="contract.quantization_is_verified",
    defect="verify_quantization() accepts everything, and the server fails when it loads the weights",
    says="raises nothing",
)
class AcceptsEveryQuantization(ReferencePlatform):
    supported_quantization = ["fp8"]
