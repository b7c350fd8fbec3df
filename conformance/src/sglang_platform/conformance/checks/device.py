"""Level 2: the device's operations give the types and the units that they promise."""

from __future__ import annotations

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
    """`get_device(0)` is a torch.device of the platform's type on which tensors can be made, and made current."""
    import torch

    platform = subject.platform
    device = platform.get_device(0)
    expect(isinstance(device, torch.device), f"get_device(0) answers {device!r}, not a torch.device")
    expect(
        device.type == platform.device_type,
        f"get_device(0) answers {device!r}, and device_type is {platform.device_type!r}",
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
    fix="ask the driver for it, and return it as the type that is promised",
)
def device_is_described(subject: Subject) -> None:
    """Name and uuid are texts, the capability is a DeviceCapability or None."""
    platform = subject.platform
    for method in ("get_device_name", "get_device_uuid"):
        text = getattr(platform, method)(0)
        expect(
            isinstance(text, str) and text.strip(),
            f"{method}(0) answers {text!r}, not a text",
            case={"method": method},
        )
    found = platform.get_device_capability(0)
    good = found is None or (isinstance(found, tuple) and hasattr(found, "major") and hasattr(found, "minor"))
    expect(
        good,
        f"get_device_capability(0) answers {found!r}",
        fix="return sglang_platform.core.DeviceCapability(major, minor), or None where the vendor numbers none",
    )


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="build it from what the hardware reports, its serial number or UUID: not from id(), a counter, random numbers "
    "or the process",
)
def uuid_is_stable(subject: Subject) -> None:
    """The device's uuid is the same when it is asked again, and in another process."""
    first = subject.platform.get_device_uuid(0)
    again = subject.platform.get_device_uuid(0)
    expect(first == again, f"get_device_uuid(0) answered {first!r}, then {again!r}")
    told = in_another_process(subject, "get_device_uuid(0)")
    expect(told == repr(first), f"get_device_uuid(0) answers {first!r} here, and {told} in another process")


@check(
    level=Level.CONTRACT,
    needs="device",
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
    communicator = platform.get_communicator_class()
    expect(
        communicator is None or isinstance(communicator, type),
        f"get_communicator_class() answers {communicator!r}, not a class or None",
    )
    expect(platform.inference_mode() is not None, "inference_mode() answers None, not a context manager")


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
    """What `supported_quantization` lists is accepted; where it lists something, an unknown method is refused."""
    platform = subject.platform
    listed = platform.supported_quantization
    expect(
        isinstance(listed, list | tuple) and all(isinstance(name, str) for name in listed),
        f"supported_quantization is {listed!r}, not a list of names",
    )
    for name in listed:
        platform.verify_quantization(name)
    if listed:
        try:
            platform.verify_quantization("no-such-method")
        except ValueError:
            return
        raise CheckFailed(
            "supported_quantization lists methods, and verify_quantization('no-such-method') raises nothing"
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
