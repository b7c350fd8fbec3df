"""Level 2: the device's operations give the types and the units that they promise."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import probe
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SMALLEST, _LARGEST = 256 << 20, 1 << 50
"""No accelerator has less than 256 MiB or more than 1 PiB: what is outside is in another unit."""


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="return torch.device(self.device_type, device_id), or without the "
    "index where there is one device only",
)
def get_device_is_usable(subject: Subject) -> None:
    """`get_device(0)` is a torch.device of the platform's type on which tensors can be made, and made current; so is
    the answer to None."""
    import torch

    platform = subject.platform
    device = platform.get_device(0)
    expect(isinstance(device, torch.device), f"get_device(0) answers {device!r}, not a torch.device")
    expect(
        device.type == platform.device_type,
        f"get_device(0) answers {device!r}, and device_type is {platform.device_type!r}",
    )
    anywhere = platform.get_device(None)
    kinds = (
        torch.device if subject.host == "none" else (torch.device, str)
    )  # core's adapter answers the host its name
    expect(
        isinstance(anywhere, kinds) and torch.device(anywhere).type == platform.device_type,
        f"get_device(None) answers {anywhere!r}, and device_type is {platform.device_type!r}",
        fix="return torch.device(self.device_type) for None: the host asks so for its argument --device",
    )
    answer = platform.set_device(device)
    expect(
        answer is None,
        f"set_device({device!r}) answers {answer!r}, not None",
        fix="return nothing from set_device()",
    )
    tensor = torch.arange(8, device=device)
    expect(int(tensor.sum().cpu()) == 28, f"a tensor on {device!r} does not hold what was put into it")


@check(
    level=Level.CONTRACT,
    needs="device",
    founds="memory of the device",
    fix="return bytes: SGLang sizes the KV cache of the device from this number",
)
def memory_is_in_bytes(subject: Subject) -> None:
    """Total, free and used memory are numbers of bytes, and agree with one another."""
    platform = subject.platform
    total = platform.get_device_total_memory(0)
    expect(
        isinstance(total, int) and not isinstance(total, bool),
        f"get_device_total_memory(0) answers {total!r}, not an int",
    )
    again = platform.get_device_total_memory(0)
    expect(
        again == total,
        f"get_device_total_memory(0) answers {total}, then {again}",
        fix="return what the device has, not what is free now",
    )
    true = _true_total(subject)
    for unit, factor in (
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1000),
        ("MB", 1000**2),
        ("GB", 1000**3),
    ):
        if true is not None and total < _SMALLEST and abs(total * factor - true) < 0.1 * true:
            raise CheckFailed(
                f"get_device_total_memory(0) answers {total}, which is the memory in {unit}, not in bytes"
            )
    expect(
        _SMALLEST <= total <= _LARGEST,
        f"get_device_total_memory(0) answers {total}: as bytes that is {total / (1 << 20):.3g} MiB",
    )
    if true is not None:
        expect(
            0.5 * true <= total <= 2 * true,
            f"get_device_total_memory(0) answers {total} bytes, and the device has {true}",
        )
    answer = platform.get_available_memory(0)
    expect(
        isinstance(answer, tuple) and len(answer) == 2,
        f"get_available_memory(0) answers {answer!r}, not the pair (free, total)",
        fix="return (free, total), both in bytes",
    )
    free, of = answer
    expect(
        isinstance(free, int) and isinstance(of, int),
        f"get_available_memory(0) answers {answer!r}, not two whole numbers of bytes",
        fix="return (free, total), both in bytes",
    )
    expect(
        0 <= free <= of,
        f"get_available_memory(0) answers ({free}, {of}): more is free than there is",
        fix="return (free, total) in this order, both in bytes",
    )
    expect(
        abs(of - total) <= 0.05 * total,
        f"get_available_memory(0) says that there are {of} bytes, get_device_total_memory(0) {total}",
    )
    used = platform.get_current_memory_usage(None)
    expect(
        isinstance(used, float | int) and 0 <= used <= total,
        f"get_current_memory_usage(None) answers {used!r}, of {total} bytes",
        fix="return the peak of memory allocated in bytes, a float",
    )


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="return the peak of memory allocated in this process, in bytes, from the device's allocator",
)
def memory_usage_grows(subject: Subject) -> None:
    """Memory that is allocated on the device is counted by `get_current_memory_usage()`."""
    subject.stands_on("memory of the device")
    import torch

    module = getattr(torch, subject.device.type, None)
    if not hasattr(module, "memory_allocated"):
        raise NotApplicable(
            f"torch keeps no account of the memory of {subject.device.type}: nothing to compare with"
        )
    size = 256 << 20
    before = subject.platform.get_current_memory_usage(None)
    held = torch.ones(size, dtype=torch.uint8, device=subject.device)
    subject.synchronize()
    after = subject.platform.get_current_memory_usage(None)
    expect(
        after >= held.numel(),
        f"{size} bytes are allocated, and get_current_memory_usage() went from {before} to {after}",
    )


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="return the type that the contract promises, or leave the method out: its default is safe",
)
def defaults_keep_their_types(subject: Subject) -> None:
    """The operations that have a safe default keep its type where they are overridden."""
    import torch
    from torch.profiler import ProfilerActivity

    platform = subject.platform
    for method in ("empty_cache", "synchronize"):
        answer = getattr(platform, method)()
        expect(answer is None, f"{method}() answers {answer!r}, not None", case={"method": method})
    pinned = platform.is_pin_memory_available()
    expect(isinstance(pinned, bool), f"is_pin_memory_available() answers {pinned!r}, not True or False")
    backend = platform.get_torch_distributed_backend_str()
    expect(
        isinstance(backend, str) and backend,
        f"get_torch_distributed_backend_str() answers {backend!r}, not a text",
    )
    known = {*torch.distributed.Backend.backend_list, "nccl", "gloo", "mpi", "xccl", "hccl", "mccl"}
    expect(
        all(part.rpartition(":")[2] in known for part in backend.split(",")),
        f"get_torch_distributed_backend_str() answers {backend!r}, which torch.distributed does not know",
        fix="return the name of a backend of torch.distributed, or register yours before: "
        "torch.distributed.Backend.register_backend(...)",
    )
    for part in backend.split(","):
        _serves(part, subject.device.type)
    try:
        activity = platform.get_torch_profiler_activity_str()
    except (
        NotImplementedError
    ):  # SGLang's own base class has no default, and asks only when somebody profiles
        activity = "CPU"
    expect(
        isinstance(activity, str) and activity in ProfilerActivity.__members__,
        f"get_torch_profiler_activity_str() answers {activity!r}, which is no torch.profiler.ProfilerActivity",
        fix=f"return one of {', '.join(ProfilerActivity.__members__)}",
    )
    own = {"cuda": "CUDA", "xpu": "XPU", "hpu": "HPU", "mtia": "MTIA", "cpu": "CPU", "mps": "CPU"}
    recorded = own.get(subject.device.type, "PrivateUse1")
    expect(
        activity in (recorded, "CPU"),
        f"get_torch_profiler_activity_str() answers {activity!r}, and torch records {subject.device.type} as"
        f" {recorded!r}",
        fix="leave get_torch_profiler_activity_str() out: the contract's own goes by device_type",
    )
    if activity in own.values() and hasattr(platform, "get_torch_profiler_activity"):
        with contextlib.suppress(NotImplementedError):
            member = platform.get_torch_profiler_activity()
            expect(
                member == ProfilerActivity.__members__[activity],
                f"get_torch_profiler_activity() answers {member!r}, and its name is said to be {activity!r}",
            )
    communicator = platform.get_communicator_class()
    expect(
        communicator is None or isinstance(communicator, type),
        f"get_communicator_class() answers {communicator!r}, not a class or None",
    )
    expect(platform.inference_mode() is not None, "inference_mode() answers None, not a context manager")


def _serves(part: str, device_type: str) -> None:
    """Raises CheckFailed for a part of a backend's name that this torch, or this device, does not have."""
    import torch.distributed as dist

    of, _, name = part.rpartition(":")
    of = of or device_type
    capable = dist.Backend.backend_capability.get(name, [device_type])
    expect(
        name not in dist.Backend.backend_list or dist.is_backend_available(name),
        f"get_torch_distributed_backend_str() has {name!r}, and this torch is built without it",
        fix="return the name of a backend that torch has for this device; 'gloo' for tensors on the CPU",
    )
    expect(
        of != device_type or name == "gloo" or device_type in capable,
        f"get_torch_distributed_backend_str() has {name!r}, which carries tensors of {', '.join(capable)}, and the"
        f" device is {device_type!r}",
        fix="return the name of a backend that torch has for this device; 'gloo' for tensors on the CPU",
    )


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="put back in `finally` what was there before, a variable that was unset included",
)
def reindexing_is_undone(subject: Subject) -> None:
    """`reindex_device_id(0)` yields an index, and leaves the environment as it found it, after an error too."""
    before = dict(os.environ)
    for raises in (False, True):
        try:
            with subject.platform.reindex_device_id(0) as index:
                expect(isinstance(index, int), f"reindex_device_id(0) yields {index!r}, not an index")
                if raises:
                    raise _Expected
        except _Expected:
            pass
        now = dict(os.environ)
        changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
        after = "after an error inside it" if raises else "after it"
        expect(
            not changed,
            f"{after}, reindex_device_id(0) leaves other values of {', '.join(changed)}",
            case={"error": raises},
        )


class _Expected(Exception):
    pass


@check(
    level=Level.CONTRACT,
    fix="raise ValueError for a method that is not in supported_quantization, and nothing for those that are",
)
def quantization_is_verified(subject: Subject) -> None:
    """What `supported_quantization` lists is accepted; where it lists something, an unknown method is refused, with
    ValueError; the answer is None."""
    platform = subject.platform
    listed = platform.supported_quantization
    expect(
        isinstance(listed, list | tuple) and all(isinstance(name, str) for name in listed),
        f"supported_quantization is {listed!r}, not a list of names",
    )
    for name in (*listed, "no-such-method", "fp8"):
        try:
            answer = platform.verify_quantization(name)
        except ValueError as error:
            expect(
                name not in listed,
                f"supported_quantization lists {name!r}, and verify_quantization({name!r}) raises {error}",
            )
            continue
        except Exception as error:
            raise CheckFailed(
                f"verify_quantization({name!r}) raises {type(error).__name__}: {error}; a method is refused with"
                " ValueError"
            ) from error
        expect(
            answer is None,
            f"verify_quantization({name!r}) answers {answer!r}: a method that does not raise is served",
        )
        expect(
            not listed or name != "no-such-method",
            "supported_quantization lists methods, and verify_quantization('no-such-method') raises nothing",
        )


def in_another_process(subject: Subject, expression: str) -> str:
    """`repr` of an expression on the platform, evaluated in a fresh process."""
    told = probe(
        "processes", f"it evaluates {expression}", **whoami(subject), expressions=[expression], depth=0
    )
    answer: str = told["answers"][expression]
    return answer


def whoami(subject: Subject) -> dict[str, Any]:
    """What a probe needs to come to the same platform."""
    return {
        "name": subject.name,
        "location": os.environ.get("SGLANG_PLATFORM_PLUGIN", "").partition("=")[2] or None,
        "host": subject.host,
    }


def _true_total(subject: Subject) -> int | None:
    """What the system says of the device's memory, independent of the platform."""
    import torch

    if subject.device.type == "cpu":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    properties = getattr(getattr(torch, subject.device.type, None), "get_device_properties", None)
    if properties is None:
        return None
    return int(properties(subject.device.index or 0).total_memory)
