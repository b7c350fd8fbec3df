"""Level 3: memory of the host beside the device's: lent once, copied by slots and pages; and device memory that is
given back for a while and comes again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.brought_classes import copying_memory, host_memory, memory_saver
from sglang_platform.conformance.fixtures.kept import expect_nothing_kept
from sglang_platform.conformance.fixtures.tensor_memory import bytes_in_tensors, resident
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_ROWS = 24
_ROW = (2, 8)
_LAYERS = (1, 2, 16)
_PAGE = 4
_LONG_RUN = 9_001
"""Rows of a long prompt, side by side."""

_REGISTERED = 40_000
"""Rows that are 2.4 MiB, more than one registration of some drivers."""

_DTYPES = (torch.bfloat16, torch.float32, torch.uint8)


_check = partial(check, level=Level.MEMORY, hosts=("none",))


@_check(
    fix="allocate anew at each call of allocate(): keys and values, and each of several pools, are asked for in one"
    " shape"
)
def host_memory_is_lent_once(subject: Subject) -> None:
    """Memory of the host has the shape and type that was asked for, lies in host memory, side by side, and two that are
    alike share nothing."""
    memory = host_memory(subject)
    for dtype in _DTYPES:
        held = [memory.allocate((_ROWS, *_ROW), dtype) for _ in range(3)]
        held.append(memory.allocate(torch.Size((_ROWS, *_ROW)), dtype))
        for tensor in held:
            expect(
                (tuple(tensor.shape), tensor.dtype, tensor.device.type, tensor.is_contiguous())
                == ((_ROWS, *_ROW), dtype, "cpu", True),
                f"allocate({(_ROWS, *_ROW)}, {dtype}) answers {tuple(tensor.shape)} of {tensor.dtype} on"
                f" {tensor.device}{'' if tensor.is_contiguous() else ', with gaps'}",
            )
        for at, tensor in enumerate(held):
            tensor.fill_(at + 1)
        lost = [at for at, tensor in enumerate(held) if not bool((tensor == at + 1).all())]
        expect(not lost, f"allocate() of one shape, called {len(held)} times, lends memory twice, of {dtype}")


@dataclass(frozen=True)
class HostSlots:
    """Rows `from_` of each source to rows `to`. `registered`: host memory is somebody else's, registered for a time."""

    from_: Sequence[int]
    to: Sequence[int]
    buffers: int = 2
    registered: bool = False
    dtype: str = "float32"
    uneven: bool = False
    """Values are wider than keys."""
    row: tuple[int, ...] = _ROW


def slots(subject: Subject, rng: random.Random) -> Iterator[HostSlots]:
    scattered = (1, 9, 4, 20, 5, 6)
    consecutive = (7, 8, 9, 10, 11, 12)
    yield HostSlots((), ())
    yield HostSlots((3,), (11,))
    yield HostSlots(consecutive, (0, 1, 2, 3, 4, 5))
    yield HostSlots(consecutive, scattered)
    yield HostSlots(scattered, consecutive)
    yield HostSlots(consecutive, consecutive[::-1])
    yield HostSlots(consecutive[::-1], consecutive)
    yield HostSlots((2, 3, 4, 8, 9, 10), (5, 6, 12, 13, 14, 15))
    yield HostSlots(range(_LONG_RUN), range(7, 7 + _LONG_RUN))
    yield HostSlots(range(_REGISTERED), range(7, 7 + _REGISTERED), 1, registered=True)
    yield HostSlots(scattered, consecutive, registered=True)
    yield HostSlots(scattered, consecutive, 1, dtype="bfloat16")
    yield HostSlots(consecutive, scattered, 1, dtype="uint8")
    yield HostSlots(consecutive, scattered, 4, uneven=True)
    yield HostSlots(
        scattered, consecutive, 1, dtype="uint8", row=(1, 656)
    )  # as packed rows of sparse attention
    for buffers in (1, 32):
        drawn = rng.sample(range(_ROWS), 10), rng.sample(range(_ROWS), 10)
        yield HostSlots(tuple(drawn[0]), tuple(drawn[1]), buffers)


@_check(
    cases=slots,
    fix="copy row from_[i] of every source to row to[i] of its target: a run ends where either side goes on by other"
    " than one",
)
def host_copies_follow_their_slots(subject: Subject, case: HostSlots) -> None:
    """`copy_slots()` copies each row to its own place in the target of its source, whichever side is consecutive, of
    as many buffers as a model of 16 layers has, of 8, 16 and 32 bits, of rows of several widths, 9,001 rows side by
    side too, out of the device and into it, and touches no other row; between memory that somebody else allocated as
    well, while it is registered."""
    memory, generator = copying_memory(subject), subject.torch_rng()
    rows = max((_ROWS - 1, *case.from_, *case.to)) + 1
    from_, to = (torch.tensor(one, dtype=torch.int64) for one in (case.from_, case.to))
    for out in (True, False):
        sources, targets = (
            _buffers(
                memory,
                subject,
                case.buffers,
                on_device,
                generator,
                rows,
                getattr(torch, case.dtype),
                row=case.row,
                uneven=case.uneven,
            )
            for on_device in (out, not out)
        )
        wanted = [target.cpu().clone() for target in targets]
        for source, target in zip(sources, wanted, strict=True):
            target[to] = source.cpu()[from_]
        what = f"copy_slots() {'out of the device' if out else 'to the device'}"
        with ExitStack() as stack:
            if case.registered:
                what += ", of registered memory"
                in_host_memory = targets if out else sources
                in_host_memory[:] = [tensor.clone() for tensor in in_host_memory]
                for tensor in in_host_memory:
                    if memory.register(tensor):
                        stack.callback(memory.unregister, tensor)
            memory.copy_slots(sources, targets, from_, to)
            _compare(subject, targets, wanted, what)


@_check(seconds=120, fix="let go of what was copied when the copy is done, at the next copy at the latest")
def host_copies_keep_no_memory(subject: Subject) -> None:
    """Copies out of the device and into it, of device tensors that are new each time, leave nothing: memory does not
    grow with their number."""
    memory, rows = copying_memory(subject), torch.arange(_ROWS)
    on_host = memory.allocate((_ROWS, *_ROW), torch.float32)

    def copied(number: int) -> None:
        on_device = torch.ones((_ROWS, *_ROW)).to(subject.device)
        sources, targets = ([on_device], [on_host]) if number % 2 else ([on_host], [on_device])
        memory.copy_slots(sources, targets, rows, rows.flip(0))

    expect_nothing_kept(subject, copied, "copies between the device and host memory")


@dataclass(frozen=True)
class HostPages:
    """`targets`: keys and values, or latent rows, which are one."""

    layers: int
    pages: int
    targets: int = 2


def pages(subject: Subject, rng: random.Random) -> Iterator[HostPages]:
    for layers in _LAYERS:
        for n in (1, 3):
            yield HostPages(layers, n)
    yield HostPages(5, 2, targets=1)


@_check(
    cases=pages,
    fix="copy every page of every source: sources that leave the device are the layers of the first target, then those"
    " of the second; to the device go the pages of one layer",
)
def host_pages_are_copied_whole(subject: Subject, case: HostPages) -> None:
    """`copy_pages_out()` of keys and values of all layers fills the pages of both targets, and of latent rows those of
    one; `copy_pages_in()` brings one layer of them back to other slots, in any order of pages, and neither touches
    anything else."""
    memory, generator = copying_memory(subject), subject.torch_rng()
    numbers = _ROWS // _PAGE
    shape = (numbers, case.layers, _PAGE, *_ROW)
    hosts = [_filled(memory.allocate(shape, torch.float32), generator) for _ in range(case.targets)]
    rows = _buffers(memory, subject, case.targets * case.layers, True, generator)
    on_device, on_host, back = (
        torch.randperm(numbers, generator=generator)[: case.pages].tolist() for _ in range(3)
    )
    wanted = [host.clone() for host in hosts]
    for at, row in enumerate(rows):
        paged = row.cpu().view(numbers, _PAGE, *_ROW)
        wanted[at // case.layers][on_host, at % case.layers] = paged[on_device]
    memory.copy_pages_out(rows, hosts, _slots_of(on_device), _slots_of(on_host), _PAGE)
    _compare(subject, hosts, wanted, "copy_pages_out()")
    for layer in range(case.layers):
        targets = rows[layer :: case.layers]
        after = [target.cpu().clone() for target in targets]
        for target, host in zip(after, hosts, strict=True):
            target.view(numbers, _PAGE, *_ROW)[back] = host[on_host, layer]
        memory.copy_pages_in(hosts, targets, _slots_of(on_host), _slots_of(back), layer, _PAGE)
        _compare(subject, targets, after, f"copy_pages_in() of layer {layer}")


def _buffers(
    memory: Any,
    subject: Subject,
    n: int,
    on_device: bool,
    generator: torch.Generator,
    rows: int = _ROWS,
    dtype: torch.dtype = torch.float32,
    *,
    row: tuple[int, ...] = _ROW,
    uneven: bool = False,
) -> list[torch.Tensor]:
    """[rows, ...] each, of which few numbers are the same. With `uneven`, rows of the later half are wider."""
    shapes = [(rows, *row[:-1], row[-1] * (2 if uneven and at >= n / 2 else 1)) for at in range(n)]
    if on_device:
        return [_filled(torch.empty(shape, dtype=dtype), generator).to(subject.device) for shape in shapes]
    return [_filled(memory.allocate(shape, dtype), generator) for shape in shapes]


def _filled(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    numbers = torch.randn(tensor.shape, generator=generator)
    return tensor.copy_(numbers if tensor.is_floating_point() else (numbers.abs() * 60).clamp(max=255))


def _slots_of(numbers: list[int]) -> torch.Tensor:
    return (torch.tensor(numbers)[:, None] * _PAGE + torch.arange(_PAGE)).flatten()


def _compare(subject: Subject, got: list[torch.Tensor], wanted: list[torch.Tensor], what: str) -> None:
    subject.synchronize()
    for at, (one, other) in enumerate(zip(got, wanted, strict=True)):
        wrong = (one.cpu() != other).flatten(1).any(1).nonzero().flatten().tolist()
        expect(
            not wrong, f"after {what} rows {wrong[:8]} of target {at} of {len(got)} are not what they must be"
        )


_SIZES = (16, 4096, 1 << 20, 100_003)
_OF_NOTHING = "cuda_graph"
"""The host's tag of graphs, of which a device may have no tensors."""


@_check(
    fix="keep what `keep_content` asks for, tag by tag and storage by storage, write zeros into what was not kept, and"
    " let resume() answer True where any address is another than before: graphs hold addresses"
)
def released_memory_comes_back(subject: Subject) -> None:
    """The memory saver gives tensors their memory back, under tags of their own, with their shapes and, where that was
    asked for, what they held last, of whole numbers and of views of one storage too, the first time and the second, and
    zeros where it was not; each tag by itself, resumed in any order, also one without tensors; `resume()` says so where
    an address is another than before, which it is where others took the memory meanwhile."""
    saver, generator = memory_saver(subject), subject.torch_rng()
    tensors = {
        tag: [torch.empty(size).to(subject.device) for size in _SIZES] for tag in ("weights", "kv_cache")
    }
    held = tensors["weights"]
    held += [held[2][: 1 << 10], held[2].view(1 << 10, -1)]
    packed = [torch.empty(4096, dtype=dtype).to(subject.device) for dtype in (torch.int32, torch.uint8)]
    held += packed  # as weights of 4 bits, and their zero points, are
    for time, order in (("", ("weights", "kv_cache")), (", the second time", ("kv_cache", "weights"))):
        for tensor in (*held[: len(_SIZES)], *tensors["kv_cache"]):
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
        for tensor in packed:
            tensor.copy_(torch.randint(1, 200, tensor.shape, generator=generator).to(tensor.dtype))
        _release_and_resume(subject, saver, tensors, held, order, time)


def _release_and_resume(
    subject: Subject,
    saver: Any,
    tensors: dict[str, list[torch.Tensor]],
    held: list[torch.Tensor],
    order: tuple[str, ...],
    time: str,
) -> None:
    content = [tensor.cpu().clone() for tensor in held]
    addresses = {tag: [one.data_ptr() for one in tensors[tag]] for tag in tensors}
    sizes = {tag: [one.untyped_storage().nbytes() for one in tensors[tag]] for tag in tensors}
    subject.synchronize()
    saver.release(_OF_NOTHING, [])
    for tag, ones in tensors.items():
        saver.release(tag, ones, keep_content=tag == "weights")
    others = [torch.ones(size, device=subject.device) for size in _SIZES for _ in range(3)]
    del others[::3]  # what is taken again may lie where these lay
    for tag in order:
        ones = tensors[tag]
        answer = saver.resume(tag)
        subject.synchronize()
        moved = [one.data_ptr() for one in ones] != addresses[tag]
        case = {"tag": tag}
        expect(
            answer is True or (answer is False and not moved),
            f"resume(){time} answers {answer!r}, and the memory {'lies elsewhere' if moved else 'lies where it lay'}",
            case=case,
        )
        absent = [
            at
            for at, (one, size) in enumerate(zip(ones, sizes[tag], strict=True))
            if one.untyped_storage().nbytes() != size
        ]
        expect(
            not absent,
            f"after resume({tag!r}){time} tensors {absent} of {len(ones)} have no memory yet",
            case=case,
        )
        if tag == "weights":
            continue
        filled = [at for at, one in enumerate(ones) if one.cpu().ne(0).any()]
        expect(
            not filled,
            f"after resume({tag!r}){time} tensors {filled} of {len(ones)}, whose content was not kept, hold what lay"
            " there before, and must be zeros: the next step reads the padding row",
            case=case,
        )
    saver.resume(_OF_NOTHING)
    del others
    wrong = [
        at
        for at, (one, was) in enumerate(zip(held, content, strict=True))
        if one.shape != was.shape or not torch.equal(one.cpu(), was)
    ]
    expect(
        not wrong,
        f"released with keep_content{time}, tensors {wrong} of {len(held)} hold something else afterwards",
    )


_LARGE = 256 << 20
_ATTEMPTS = 6
_OFTEN = 4


@_check(
    fix="give the memory back to the device in release(): what trains beside the engine takes it meanwhile"
)
def released_memory_is_free(subject: Subject) -> None:
    """Of 256 MiB that are released, tensors have half less at least until they are resumed, or, four times in six, the
    device has so much more free, also where the content is kept, unless the device's memory is the host's."""
    saver, by_device = memory_saver(subject), False
    for keep in (False, True):
        if keep and by_device and _shares_memory_with_the_host(subject):
            return  # what is kept takes as much as what is given back
        tensor = torch.full((_LARGE,), 7, dtype=torch.uint8, device=subject.device)
        fewer, freed = [], []
        for _ in range(_ATTEMPTS):
            tensor.fill_(7)  # memory that was taken again may come with the first write
            before = _memory(subject)
            saver.release("weights", [tensor], keep_content=keep)
            now = _memory(subject)
            saver.resume("weights")
            fewer.append(before[0] - now[0])
            freed.append(now[1] - before[1])
            if fewer[-1] >= _LARGE // 2:
                break
        often = sum(bytes_ >= _LARGE // 2 for bytes_ in freed)  # others use the same memory meanwhile
        expect(
            fewer[-1] >= _LARGE // 2 or often >= _OFTEN,
            f"of {_LARGE} bytes that are released tensors have {max(fewer)} less, and the device {max(freed)} more"
            f" free, of {_ATTEMPTS} times the most",
            case={"keep_content": keep},
        )
        by_device = fewer[-1] < _LARGE // 2


def _shares_memory_with_the_host(subject: Subject) -> bool:
    """Whether what the host takes is missing on the device, in one of some times at least."""
    for _ in range(_ATTEMPTS):
        before = _memory(subject)[1]
        in_host_memory = torch.full((_LARGE,), 7, dtype=torch.uint8)
        if before - _memory(subject)[1] >= _LARGE // 2:
            return True
        del in_host_memory
    return False


def _memory(subject: Subject) -> tuple[int, int]:
    """(bytes in tensors, bytes free on the device). On a CPU the second is what the process does not hold, below zero:
    what the system has free is others' as well."""
    subject.platform.empty_cache()
    subject.synchronize()
    in_tensors = bytes_in_tensors(subject)
    if subject.device.type == "cpu" and (held := resident()) is not None:
        return in_tensors, -held
    return in_tensors, int(subject.platform.get_available_memory(0)[0])
