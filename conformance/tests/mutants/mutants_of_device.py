"""Level 2 mutants: device operations that answer in the wrong unit or type, or differently each time; streams that do
not wait, in copies of level 3 too."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from mutant import mutant

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.memory.host_memory import HostMemory
from sglang_platform.example_oot.platform import ExampleOOTPlatform


@mutant(
    check="contract.device_operations_do_what_they_promise",
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
    check="contract.device_operations_do_what_they_promise",
    defect="the capability is a text, and every comparison with a version raises",
    says="get_device_capability",
)
class CapabilityAsText(ReferencePlatform):
    def get_device_capability(self, device_id: int = 0) -> Any:
        return "9.0"


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="the uuid is made up in each process, so caches keyed by it are never found again",
    says="in a process started",
)
class UuidPerProcess(ReferencePlatform):
    def get_device_uuid(self, device_id: int = 0) -> str:
        return f"device-{os.getpid()}-{device_id}"


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="the visibility variable is put back only where nothing raised",
    says="an error inside it",
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
    check="contract.device_operations_do_what_they_promise",
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


@mutant(
    check="contract.device_operations_are_quick",
    defect="the free memory is asked of a tool that takes a second to start",
    says="get_available_memory() takes",
)
class MemoryByATool(ReferencePlatform):
    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        time.sleep(0.4)
        return super().get_available_memory(device_id)


@mutant(
    check="contract.device_operations_are_quick",
    defect="synchronize() polls the device every 20 ms, at each step",
    says="synchronize() takes",
)
class SynchronizePolls(ReferencePlatform):
    def synchronize(self) -> None:
        time.sleep(0.02)


@mutant(
    check="contract.device_operations_are_quick",
    defect="a device is made current by a tool, in some hundredths of a second",
    says="set_device(",
)
class CurrentByATool(ReferencePlatform):
    def set_device(self, device: Any) -> None:
        time.sleep(0.03)


@mutant(
    check="contract.free_memory_counts_other_processes",
    defect="the free memory is the total less what this process holds",
    says="another process held",
)
class FreeOfThisProcess(ReferencePlatform):
    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        total = self.get_device_total_memory(device_id)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return total - pages * os.sysconf("SC_PAGE_SIZE"), total


@mutant(
    check="contract.device_operations_leave_the_process_alone",
    defect="making a device current makes torch's new tensors land on it",
    says="torch's function modes",
)
class CurrentIsTorchsDefault(ReferencePlatform):
    def set_device(self, device: Any) -> None:
        torch.set_default_device(device)


@mutant(
    check="contract.seeds_are_followed",
    defect="a seed reaches Python's random numbers only, and sampled answers differ from run to run",
    says="is not seeded",
)
class SeedsPythonAlone(ReferencePlatform):
    @classmethod
    def seed_everything(cls, seed: int | None = None) -> None:
        if seed is not None:
            random.seed(seed)


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="gradients are recorded while the model serves",
    says="memory grows",
)
class RecordsGradients(ReferencePlatform):
    @classmethod
    def inference_mode(cls) -> Any:
        return nullcontext()


@mutant(
    check="contract.memory_usage_covers_allocations",
    defect="the usage is counted in pages of 4 KiB",
    says="are allocated, and get_current_memory_usage() answers",
)
class UsageInPages(ReferencePlatform):
    def get_current_memory_usage(self, device: Any = None) -> float:
        return super().get_current_memory_usage(device) // 4096


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="page-locked memory is promised, and torch has none here",
    says="torch has none",
)
class PinsNothing(ReferencePlatform):
    def is_pin_memory_available(self, device: Any = None) -> bool:
        return True


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="the device to be made current must be given as a number",
    says="TypeError",
)
class CurrentByNumber(ReferencePlatform):
    def set_device(self, device: Any) -> None:
        if not isinstance(device, int):
            raise TypeError(f"an index is needed, not {device!r}")


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="the variable that the operator had set is removed after a worker's start",
    says="was '0,1'",
)
class ReindexingForgets(ReferencePlatform):
    @contextmanager
    def reindex_device_id(self, device_id: int) -> Iterator[int]:
        os.environ["ZE_AFFINITY_MASK"] = str(device_id)
        try:
            yield 0
        finally:
            del os.environ["ZE_AFFINITY_MASK"]


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="the uuid is the name of the product",
    says="on another machine, has the same",
)
class UuidOfTheProduct(ReferencePlatform):
    def get_device_uuid(self, device_id: int = 0) -> str:
        return f"{self.get_device_name(device_id)} #{device_id}".replace(" ", "-")


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="the distributed backend is of another device",
    says="this torch is built without it",
)
class BackendNotBuiltIn(ReferencePlatform):
    def get_torch_distributed_backend_str(self) -> str:
        return "xccl"


@mutant(
    check="contract.quantization_is_verified",
    defect="a method that is not served is refused by an answer that nobody reads",
    says="a method that does not raise is served",
)
class RefusesByAnswering(ReferencePlatform):
    def verify_quantization(self, quant: str) -> Any:
        return quant in ("fp8",)


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="the device's handle belongs to the thread that opened it",
    says="in another thread",
)
class DeviceOfTheFirstThread(ReferencePlatform):
    def set_device(self, device: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the device is open in another thread")
        super().set_device(device)


class _OtherStreams(ExampleOOTPlatform):
    """The example's device, whose module the platform changes."""

    def __init__(self) -> None:
        super().__init__()
        self._change(torch.get_device_module(self.device_type))

    def _change(self, module: Any) -> None:
        raise NotImplementedError


@mutant(
    check="contract.streams_wait_for_each_other",
    defect="a stream that waits for another waits for itself",
    says="after second.wait_stream(first)",
    device="example_oot",
)
class StreamWaitsForItself(_OtherStreams):
    def _change(self, module: Any) -> None:
        module.Stream.wait_stream = lambda own, other: own.wait_event(own.record_event())


class _RecordedOnTheCurrent:
    """An event that is recorded on the current stream, whichever is named."""

    def __init__(self) -> None:
        self._event = torch.Event(torch.accelerator.current_accelerator())

    def record(self, stream: Any = None) -> None:
        self._event.record()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._event, name)


@mutant(
    check="contract.streams_wait_for_each_other",
    defect="events are recorded on the current stream, whichever is named",
    says="after event.record(first)",
    device="example_oot",
)
class EventsOfTheCurrentStream(_OtherStreams):
    def _change(self, module: Any) -> None:
        module.Event = _RecordedOnTheCurrent


@mutant(
    check="contract.seeds_are_followed",
    defect="each device has a seed of its own: the number and its index",
    says="the second device gives other random numbers",
    device="example_oot",
)
class SeedsByDevice(_OtherStreams):
    def _change(self, module: Any) -> None:
        def manual_seed_all(seed: int) -> None:
            for index in range(module.device_count()):
                with module.device(index):
                    module.manual_seed(seed + index)

        module.manual_seed_all = manual_seed_all


@mutant(
    check="contract.freed_tensors_wait_for_their_streams",
    defect="record_stream() is left out: a tensor that another stream reads is given to the next one at once",
    says="that another stream still read",
    device="example_oot",
)
class StreamsAreNotRecorded(_OtherStreams):
    def _change(self, module: Any) -> None:
        torch.Tensor.record_stream = lambda own, stream: None  # type: ignore[method-assign,assignment]


@mutant(
    check="contract.copies_take_what_was_there",
    defect="a copy that does not block reads the host's memory late, whatever is written there meanwhile",
    says="are what the host wrote afterwards",
    device="example_oot",
)
class CopiesReadTheHostLate(_OtherStreams):
    def _change(self, module: Any) -> None:
        copy = torch.Tensor.copy_

        def late(own: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
            if not (non_blocking and source.device.type == "cpu" and own.device.type != "cpu"):
                return copy(own, source)
            threading.Timer(0.05, lambda: copy(own, source)).start()
            return own

        torch.Tensor.copy_ = late  # type: ignore[method-assign,assignment]


class _OnAStreamOfItsOwn(HostMemory):
    def copy(self, pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        with torch.Stream(torch.accelerator.current_accelerator()):
            super().copy(pairs)


@mutant(
    check="memory.host_copies_wait_for_the_stream",
    defect="copies with host memory run on a stream of their own, which waits for nobody",
    says="not as the current stream had them",
    device="example_oot",
)
class HostCopiesOnTheirOwnStream(ExampleOOTPlatform):
    def get_host_memory_cls(self) -> type | None:
        return _OnAStreamOfItsOwn


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="free memory is that of device 0, whichever is asked for, as of a driver's call for the current one",
    says="get_available_memory(1)",
)
class FreeMemoryOfTheFirst(ExampleOOTPlatform):
    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        return super().get_available_memory(0)


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="synchronize() waits for the current stream: what the forward's own stream has queued goes on",
    says="on another stream",
)
class WaitsForTheCurrentStream(ExampleOOTPlatform):
    def synchronize(self) -> None:
        torch.accelerator.current_stream().synchronize()


@mutant(
    check="contract.device_operations_do_what_they_promise",
    defect="the uuid is made of the index among visible devices: two workers that see one each have the same",
    says="in a process started inside reindex_device_id(1)",
)
class UuidOfTheVisibleIndex(ExampleOOTPlatform):
    @contextmanager
    def reindex_device_id(self, device_id: int) -> Iterator[int]:
        before = os.environ.get("SGLANG_EXAMPLE_OOT_DEVICES")
        os.environ["SGLANG_EXAMPLE_OOT_DEVICES"] = "1"
        try:
            yield 0
        finally:
            del os.environ["SGLANG_EXAMPLE_OOT_DEVICES"]
            if before is not None:
                os.environ["SGLANG_EXAMPLE_OOT_DEVICES"] = before
