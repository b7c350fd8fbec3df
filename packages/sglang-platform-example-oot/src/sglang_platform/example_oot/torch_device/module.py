"""`torch.example_oot`: the functions that torch and SGLang look for in a device's module, named as in `torch.cuda`.

A vendor changes little: torch's generic interface (`torch.accelerator`, `torch.Stream`, `torch.Event`) does the work.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple

import torch

from sglang_platform.example_oot.device_graph import DeviceGraph
from sglang_platform.example_oot.torch_device.compilation import (  # noqa: F401  # for torch, which looks here
    CppWrapperCodegen,
    PythonWrapperCodegen,
    Scheduling,
    WrapperFxCodegen,
)

_PRIVATEUSE1 = 20  # the number of c10::DeviceType::PrivateUse1


def _index(device: Any = None) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    named = torch.device(device)
    if named.type != _device(0).type:
        raise ValueError(f"{named} is no device of {_device(0).type}")
    index = named.index
    return current_device() if index is None else index


def _device(index: int) -> torch.device:
    return torch.device(torch._C._get_privateuse1_backend_name(), index)


def is_available() -> bool:
    return device_count() > 0


def is_initialized() -> bool:
    return True


def init() -> None:
    """Nothing to do: the device is opened when the plugin is loaded."""


def _lazy_init() -> None:
    """As `init`."""


def _is_in_bad_fork() -> bool:
    return bool(torch.ops.sglang_example_oot._in_bad_fork())


def device_count() -> int:
    return int(torch.ops.sglang_example_oot._device_count())


def current_device() -> int:
    return torch.accelerator.current_device_index()


def set_device(device: Any) -> None:
    index = _index(device)
    if index >= 0:
        torch.accelerator.set_device_index(index)


def synchronize(device: Any = None) -> None:
    torch.accelerator.synchronize(_index(device))


class device:
    """While active, `device` (an index, a name or a torch.device) is the current one."""

    def __init__(self, device: Any) -> None:
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = current_device()
        set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_device(self.prev_idx)


class device_of(device):
    """While active, the device of `obj` is the current one; another's tensor changes nothing."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device if obj.device.type == _device(0).type else -1)


class Stream(torch.Stream):
    """A stream of this device; the current device's unless one is named."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:  # noqa: PYI034  # no class derives from it
        if kwargs:  # torch re-makes a stream from its parts
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, _device(_index(device)), priority=priority)

    def wait_stream(self, stream: torch.Stream) -> None:
        self.wait_event(stream.record_event())


class Event:
    """Makes an event of the current device: a plain `torch.Event`, since torch's own methods take no subclass of it. A
    class all the same, since SGLang's diffusion runtime has `Event | None` in an annotation that it evaluates."""

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        if interprocess:
            raise NotImplementedError(
                f"events of {_device(0).type} are not shared among processes: make the event without interprocess=True,"
                " and synchronize() before the other process reads"
            )
        return torch.Event(_device(current_device()), enable_timing=enable_timing, blocking=blocking)


def current_stream(device: Any = None) -> torch.Stream:
    return torch.accelerator.current_stream(_device(_index(device)))


def default_stream(device: Any = None) -> torch.Stream:
    return torch.Stream(stream_id=0, device_index=_index(device), device_type=_PRIVATEUSE1)


def set_stream(stream: torch.Stream | None) -> None:
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """While active, `stream` is the current one; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._before: torch.Stream | None = None

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self._before = current_stream(self.stream.device)
            set_stream(self.stream)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_stream(self._before)


def stream(stream: torch.Stream | None) -> StreamContext:
    return StreamContext(stream)


def is_current_stream_capturing() -> bool:
    return bool(torch.ops.sglang_example_oot._is_current_stream_capturing())


def graph_pool_handle() -> Any:
    """The owner of memory shared by graphs that never run concurrently: an empty graph."""
    pool = DeviceGraph()
    pool.capture(lambda: None)
    return pool


# Memory


def empty_cache() -> None:
    torch.accelerator.empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """`(free, total)` in bytes of the device's limit."""
    free, total = torch.accelerator.get_memory_info(_index(device))
    return free, total


def memory_stats(device: Any = None) -> dict[str, Any]:
    return torch.accelerator.memory_stats(_index(device))


def memory_allocated(device: Any = None) -> int:
    return torch.accelerator.memory_allocated(_index(device))


def max_memory_allocated(device: Any = None) -> int:
    return torch.accelerator.max_memory_allocated(_index(device))


def memory_reserved(device: Any = None) -> int:
    return torch.accelerator.memory_reserved(_index(device))


def max_memory_reserved(device: Any = None) -> int:
    return torch.accelerator.max_memory_reserved(_index(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    torch.accelerator.reset_peak_memory_stats(_index(device))


def ipc_collect() -> None:
    """Nothing to do: no handles of other processes exist."""


class Properties(NamedTuple):
    """The result of `get_device_properties`."""

    name: str
    total_memory: int
    multi_processor_count: int
    major: int = 1
    minor: int = 0
    is_integrated: bool = True  # its memory is the machine's


def get_device_properties(device: Any = None) -> Properties:
    return Properties(get_device_name(device), mem_get_info(device)[1], torch.get_num_threads())


def get_device_name(device: Any = None) -> str:
    return f"example device {_index(device)}"


def get_device_capability(device: Any = None) -> tuple[int, int]:
    return (1, 0)


# Random numbers

default_generators: tuple[torch.Generator, ...] = ()
"""One for each device; set when the device is opened."""


def manual_seed(seed: int) -> None:
    _generator(current_device()).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    for index in range(device_count()):
        _generator(index).manual_seed(seed)


def seed() -> None:
    _generator(current_device()).seed()


def seed_all() -> None:
    for index in range(device_count()):
        _generator(index).seed()


def initial_seed() -> int:
    return _generator(current_device()).initial_seed()


def get_rng_state(device: Any = None) -> torch.Tensor:
    return _generator(_index(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    _generator(_index(device)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _generator(index: int) -> torch.Generator:
    generator: torch.Generator = torch.ops.sglang_example_oot._default_generator(index)
    return generator


# Types


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that autocast computes in."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported() -> bool:
    return True


def finish() -> None:
    """Wait for all devices before the process ends, so that no task outlives what it uses; say what failed."""
    for index in range(device_count()):
        try:
            synchronize(index)
        except Exception as error:  # noqa: BLE001  # whatever the task raised: an index, a type, memory
            print(
                f"{_device(index).type}: work on device {index} failed, and nobody waited for it: {error}",
                file=sys.stderr,
            )
