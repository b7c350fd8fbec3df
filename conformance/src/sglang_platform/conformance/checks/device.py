"""Level 2: the device's operations give the types and the units that they promise, and do what their names say."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity

from sglang_platform.conformance.check import CheckFailed, Row, check, expect, mended_by, rows
from sglang_platform.conformance.checks.device_by_index import (
    ErrorInside,
    by_index,
    current_device,
    memory_by_device,
    reindexed_processes,
    reindexing,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.contract.types import CpuArchEnum

__all__: list[str] = []


class _Answer(NamedTuple):
    """`ask` is called on the platform; where what it answers does not `hold`, it is not `wanted`."""

    ask: str
    holds: Callable[[Any, Subject], Any]
    wanted: str
    fix: str | None = None


def _judge(subject: Subject, answers: Sequence[_Answer]) -> None:
    for one in answers:
        got = eval(f"platform.{one.ask}", {"platform": subject.platform})
        wanted = one.wanted.format(platform=subject.platform)
        expect(one.holds(got, subject), f"{one.ask} answers {got!r}, {wanted}", fix=one.fix)


def _is_none(got: Any, subject: Subject) -> bool:
    return got is None


def _is_text(got: Any, subject: Subject) -> bool:
    return isinstance(got, str) and bool(got.strip())


def _is_file_name(got: str, subject: Subject) -> bool:
    return not re.search(r"[/\\\x00-\x1f]|^\s|\s$", got)


def _is_generation(got: Any, subject: Subject) -> bool:
    numbers = (getattr(got, "major", None), getattr(got, "minor", None))
    return got is None or (isinstance(got, tuple) and all(isinstance(n, int) and n >= 0 for n in numbers))


def _is_numbered(got: Any, subject: Subject) -> bool:
    with contextlib.suppress(ValueError):
        return got is None or (got.to_int(), got.as_version_str()) is not None
    return False


def _is_on_the_device(got: Any, subject: Subject) -> bool:
    kinds = torch.device if subject.host == "none" else (torch.device, str)
    # core's adapter answers the host its name
    return isinstance(got, kinds) and torch.device(got).type == subject.platform.device_type


_NO_SLASH = (
    "by which files of tuned configurations are named, and it has a slash, a line end or a space at its end",
    "leave out what no file's name may have",
)
_COMMON = ("device", "accelerator", "uuid", "gpu", "npu", "cpu", "tpu", "xpu", "card", "chip", "id")


def _is_of_this_device(uuid: str, subject: Subject) -> bool:
    """More than words that devices of this kind have in common."""
    known: tuple[str, ...] = _COMMON
    platform, left = subject.platform, uuid.lower()
    names = platform.device_name, platform.device_type, platform.get_device_name(0), type(platform).__name__
    for text in (name.lower() for name in names):
        known = (*known, *re.split(r"[\W_]+", text), text)
    for word in sorted(filter(None, known), key=len, reverse=True):
        left = left.replace(word, "")
    return len(re.sub(r"[\W_]+", "", left)) > 2


def _group_backend(subject: Subject) -> None:
    answer = subject.platform.get_torch_distributed_backend_str()
    says, kind = f"get_torch_distributed_backend_str() answers {answer!r},", subject.device.type
    expect(_is_text(answer, subject), f"{says} not a text")
    known = {*dist.Backend.backend_list, "nccl", "gloo", "mpi", "xccl", "hccl", "mccl"}
    for part in answer.split(","):
        of, _, name = part.rpartition(":")
        expect(
            name in known,
            f"{says} which torch.distributed does not know",
            fix="return the name of a backend of torch.distributed, or register yours before: "
            "torch.distributed.Backend.register_backend(...)",
        )
        expect(
            name not in dist.Backend.backend_list or dist.is_backend_available(name),
            f"{says} and this torch is built without it",
        )
        capable = dist.Backend.backend_capability.get(name, [kind])
        expect(
            (of or kind) != kind or name == "gloo" or kind in capable,
            f"{says} of which {name!r} carries tensors of {', '.join(capable)}, and the device is {kind!r}",
        )


def _profiler(subject: Subject) -> None:
    platform, kind, activity = subject.platform, subject.device.type, "CPU"
    # SGLang's own base class has no default, and asks only when somebody profiles.
    with contextlib.suppress(NotImplementedError):
        activity = platform.get_torch_profiler_activity_str()
    says = f"get_torch_profiler_activity_str() answers {activity!r},"
    expect(
        isinstance(activity, str) and activity in ProfilerActivity.__members__,
        f"{says} which is no torch.profiler.ProfilerActivity",
        fix=f"return one of {', '.join(ProfilerActivity.__members__)}",
    )
    own = {"cuda": "CUDA", "xpu": "XPU", "hpu": "HPU", "mtia": "MTIA", "cpu": "CPU", "mps": "CPU"}
    recorded = own.get(kind, "PrivateUse1")
    expect(activity in (recorded, "CPU"), f"{says} and torch records {kind} as {recorded!r}")
    if activity in own.values() and hasattr(platform, "get_torch_profiler_activity"):
        with contextlib.suppress(NotImplementedError):
            member = platform.get_torch_profiler_activity()
            expect(
                member == ProfilerActivity.__members__[activity],
                f"get_torch_profiler_activity() answers {member!r}, and its name is said to be {activity!r}",
            )


def _pinned_memory(subject: Subject) -> None:
    platform, device = subject.platform, subject.platform.get_device(0)
    for call in ((), (device,), (subject.device.type,)):
        answer = platform.is_pin_memory_available(*call)
        says = f"is_pin_memory_available({', '.join(map(repr, call))}) answers {answer!r},"
        expect(isinstance(answer, bool), f"{says} not True or False")
    if not platform.is_pin_memory_available():
        return
    says = "is_pin_memory_available() answers True,"
    try:
        staged = torch.arange(1024, dtype=torch.int32).pin_memory()
        empty = torch.empty(1024, dtype=torch.int32, pin_memory=True)
    except RuntimeError as error:
        raise CheckFailed(f"{says} and torch has none: {str(error).splitlines()[0]}") from error
    pinned = staged.is_pinned() and empty.is_pinned()
    expect(pinned, f"{says} and pin_memory() gives memory that is not page-locked")
    there = staged.to(device, non_blocking=True)
    platform.synchronize()
    expect(torch.equal(there.cpu(), staged), "what is copied from page-locked memory is not what was in it")


def _inference_mode(subject: Subject) -> None:
    mode = subject.platform.inference_mode
    expect(mode() is not None, "inference_mode() answers None, not a context manager")
    weight = torch.ones(4, device=subject.device, requires_grad=True)
    for raises in (False, True):
        with contextlib.suppress(ErrorInside), mode(), mode():
            recorded = (weight * 2).requires_grad
            product = (weight[None] @ weight[:, None]).dtype
            if raises:
                raise ErrorInside
        expect(not recorded, "inside inference_mode() gradients are recorded: memory grows with every step")
        expect(
            product == weight.dtype,
            f"inside inference_mode() products of {weight.dtype} come as {product}",
            fix="leave autocast as it is: a model says itself what it computes in which type",
        )
        expect(
            (weight * 2).requires_grad and not torch.is_inference_mode_enabled(),
            f"after inference_mode(){', and an error inside it,' * raises} no gradients are recorded",
        )


def _groups(subject: Subject) -> None:
    platform, count = subject.platform, subject.device_count()
    shared = count == 1 or not platform.is_out_of_tree()
    for rank in range(max(2, count) if subject.knows_core else count if platform.is_out_of_tree() else 0):
        if not hasattr(platform, "get_group_coordinator_device"):
            return  # the host asks nobody else
        group = platform.get_group_coordinator_device(rank)
        kind, index = getattr(group, "type", None), getattr(group, "index", None)
        expect(
            kind == "cpu" or (kind == platform.device_type and (shared or rank >= count or index == rank)),
            f"get_group_coordinator_device({rank}) answers {group!r}, and there are {count} devices of type"
            f" {platform.device_type!r}",
        )


def _compile_backend(subject: Subject) -> None:
    """For every hint of the host."""
    for mode in _MODES:
        asked = f"get_compile_backend({mode!r})"
        try:
            name = subject.platform.get_compile_backend(mode)
        except Exception as error:
            raise CheckFailed(
                f"{asked} raises {type(error).__name__}: {error}",
                fix="answer for hints that you do not know as for None",
            ) from error
        expect(isinstance(name, str) and name, f"{asked} answers {name!r}, not a name")
        if name in _SURE:
            continue
        subject.parts.init_backend()
        import torch._dynamo  # takes a second, and most names need it not

        known = torch._dynamo.list_backends(exclude_tags=())
        what = f"{asked} answers {name!r}, which torch.compile does not know (it knows {', '.join(known)})"
        expect(name in known, what)


_MODES = (
    None,
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
    "npugraph_ex",
    "piecewise",
)
_SURE = ("inductor", "eager", "aot_eager", "cudagraphs")

_ROWS: dict[str, tuple[Sequence[_Answer] | Callable[[Subject], None], str]] = {
    "device": (
        (
            _Answer("get_device(0)", lambda got, _: isinstance(got, torch.device), "not a torch.device"),
            _Answer("get_device(0)", _is_on_the_device, "and device_type is {platform.device_type!r}"),
            _Answer(
                "get_device(None)",
                _is_on_the_device,
                "and device_type is {platform.device_type!r}",
                "return torch.device(self.device_type) for None: the host asks so for its argument --device",
            ),
            _Answer(
                "set_device(platform.get_device(0))", _is_none, "not None", "return nothing from set_device()"
            ),
            _Answer(
                "get_device(0)",
                lambda got, _: int(torch.arange(8, device=got).sum().cpu()) == 28,
                "and a tensor on it does not hold what was put into it",
            ),
        ),
        "return torch.device(self.device_type, device_id), or without the index where there is one device only",
    ),
    "description": (
        (
            _Answer("get_device_name(0)", _is_text, "not a text"),
            _Answer("get_device_uuid(0)", _is_text, "not a text"),
            _Answer("get_device_name(0)", _is_file_name, *_NO_SLASH),
            _Answer("device_name", _is_file_name, *_NO_SLASH),
            _Answer(
                "get_device_uuid(0)",
                _is_of_this_device,
                "and another such device, on another machine, has the same",
                "build it from what the hardware reports, its serial number or UUID, or from the machine's id",
            ),
            _Answer(
                "get_device_capability(0)",
                _is_generation,
                "not a DeviceCapability or None",
                "return sglang_platform.core.DeviceCapability(major, minor), or None where the vendor numbers none",
            ),
            _Answer(
                "get_device_capability(0)",
                _is_numbered,
                "which has no number",
                "number generations with one digit after the point, as in 9.0",
            ),
            _Answer(
                "cpu_arch",
                lambda got, _: getattr(got, "name", None) in CpuArchEnum.__members__,
                "not a member of CpuArchEnum",
                "leave get_cpu_architecture() out: the contract's own asks the system",
            ),
        ),
        "ask the driver for it, and return it as the type that is promised",
    ),
    "defaults": (
        (
            _Answer("empty_cache()", _is_none, "not None"),
            _Answer("synchronize()", _is_none, "not None"),
            _Answer(
                "get_communicator_class()",
                lambda got, _: got is None or isinstance(got, type),
                "not a class or None",
            ),
        ),
        "return the type that the contract promises, or leave the method out: its default is safe",
    ),
    "process group": (
        _group_backend,
        "return the name of a backend that torch has for this device; 'gloo' for tensors on the CPU",
    ),
    "profiler": (
        _profiler,
        "leave get_torch_profiler_activity_str() out: the contract's own goes by device_type",
    ),
    "pinned memory": (
        _pinned_memory,
        "answer True only where torch pins memory for the device (torch.empty(..., pin_memory=True) works)",
    ),
    "reindexing": (
        reindexing,
        "remember what each variable had, and put it back in `finally`, one that was unset included: the operator may"
        " have named devices by it",
    ),
    "reindexed processes": (
        reindexed_processes,
        "build the uuid, and whatever tells devices apart, from what the driver reports of the hardware, its serial"
        " number or UUID: not from the index among the visible devices, id(), hash(), a counter, random numbers or the"
        " process",
    ),
    "inference mode": (
        _inference_mode,
        "return torch.inference_mode() or torch.no_grad(), a new one at each call",
    ),
    "current device": (
        current_device,
        "make the device that is given the current one of the thread, and wait in synchronize() for all that it does",
    ),
    "devices by index": (
        by_index,
        "answer for the device of the index that is given; the default is index 0",
    ),
    "memory by device": (
        memory_by_device,
        "ask the driver for the device of the index that is given, and of the current one for None",
    ),
    "groups": (
        _groups,
        "return get_device(local_rank), or torch.device('cpu') where groups exchange through the host",
    ),
    "compile backend": (
        _compile_backend,
        "answer the name of a backend that torch has once init_backend() was called, whatever the hint is",
    ),
}


@check(
    level=Level.CONTRACT,
    needs="device",
    seconds=200,
    cases=rows(_ROWS),
    fix="return the type that the contract promises, and do what the name says",
)
def device_operations_do_what_they_promise(subject: Subject, case: Row) -> None:
    """Each operation of the device answers with the type and the kind of value that the contract promises, for each
    device of the machine, and leaves the process as it should."""
    asked, fix = _ROWS[case.row]
    with mended_by(fix):
        asked(subject) if callable(asked) else _judge(subject, asked)
