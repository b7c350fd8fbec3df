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


class _HostCopies:
    """Buffers on the device and in host memory, with copies between them: after each, targets hold what they must."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.memory = subject, copying_memory(subject)
        self.generator = subject.torch_rng()

    def filled(self, tensor: torch.Tensor) -> torch.Tensor:
        numbers = torch.randn(tensor.shape, generator=self.generator)
        return tensor.copy_(numbers if tensor.is_floating_point() else (numbers.abs() * 60).clamp(max=255))

    def buffers(
        self, shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, there: bool
    ) -> list[torch.Tensor]:
        """Of which few numbers are the same; `there`: on the device."""
        make = (
            partial(torch.empty, dtype=dtype) if there else lambda shape: self.memory.allocate(shape, dtype)
        )
        made = [self.filled(make(shape)) for shape in shapes]
        return [one.to(self.subject.device) for one in made] if there else made

    def expect_held(self, targets: list[torch.Tensor], wanted: list[torch.Tensor], what: str) -> None:
        self.subject.synchronize()
        for at, (one, other) in enumerate(zip(targets, wanted, strict=True)):
            wrong = (one.cpu() != other).flatten(1).any(1).nonzero().flatten().tolist()
            what_is = (
                f"after {what} rows {wrong[:8]} of target {at} of {len(wanted)} are not what they must be"
            )
            expect(not wrong, what_is)


@_check(
    cases=slots,
    fix="copy row from_[i] of every source to row to[i] of its target: a run ends where either side goes on by other"
    " than one",
)
def host_copies_follow_their_slots(subject: Subject, case: HostSlots) -> None:
    """`copy_slots()` copies each row to its own place in the target of its source, out of the device and into it, and
    touches no other row; between memory that somebody else allocated as well, while it is registered."""
    copies, dtype = _HostCopies(subject), getattr(torch, case.dtype)
    rows = max((_ROWS - 1, *case.from_, *case.to)) + 1
    wide = [2 if case.uneven and at >= case.buffers / 2 else 1 for at in range(case.buffers)]
    shapes = [(rows, *case.row[:-1], case.row[-1] * times) for times in wide]
    from_, to = (torch.tensor(one, dtype=torch.int64) for one in (case.from_, case.to))
    for out in (True, False):
        sources, targets = (copies.buffers(shapes, dtype, there) for there in (out, not out))
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
                    if copies.memory.register(tensor):
                        stack.callback(copies.memory.unregister, tensor)
            copies.memory.copy_slots(sources, targets, from_, to)
            copies.expect_held(targets, wanted, what)


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
    """`copy_pages_out()` fills the pages of all targets with those of all layers; `copy_pages_in()` brings one layer of
    them back to other slots, in any order of pages, and neither touches anything else."""
    copies, n, layers = _HostCopies(subject), _ROWS // _PAGE, case.layers
    hosts = copies.buffers([(n, layers, _PAGE, *_ROW)] * case.targets, torch.float32, False)
    rows = copies.buffers([(_ROWS, *_ROW)] * case.targets * layers, torch.float32, True)
    chosen = [torch.randperm(n, generator=copies.generator)[: case.pages] for _ in range(3)]
    on_device, on_host, back = chosen
    from_, at_host, to = ((one[:, None] * _PAGE + torch.arange(_PAGE)).flatten() for one in chosen)
    wanted = [host.clone() for host in hosts]
    for at, row in enumerate(rows):
        wanted[at // layers][on_host, at % layers] = row.cpu().view(n, _PAGE, *_ROW)[on_device]
    copies.memory.copy_pages_out(rows, hosts, from_, at_host, _PAGE)
    copies.expect_held(hosts, wanted, "copy_pages_out()")
    for layer in range(layers):
        targets = rows[layer::layers]
        after = [target.cpu().clone() for target in targets]
        for target, host in zip(after, hosts, strict=True):
            target.view(n, _PAGE, *_ROW)[back] = host[on_host, layer]
        copies.memory.copy_pages_in(hosts, targets, at_host, to, layer, _PAGE)
        copies.expect_held(targets, after, f"copy_pages_in() of layer {layer}")


_SIZES = (16, 4096, 1 << 20, 100_003)
_FUSED = 600
_PARTS: tuple[tuple[slice, ...], ...] = (
    (slice(200), slice(400, None)),
    (slice(400, None), slice(200)),
    (slice(400), slice(200, None)),
    (slice(200, 210), slice(None)),
    (slice(200), slice(None)),
    (slice(7, None),),
    (slice(0, None, 2), slice(1, None, 2)),
)
"""Of one memory each, as fused weights are, and layers of one allocation: parts that share nothing, in both orders,
that overlap, one within another, also from the same start, one that begins later, and every second number."""

_OF_NOTHING = "cuda_graph"
"""The host's tag of graphs, of which a device may have no tensors."""


class _Tag:
    """Tensors that the saver knows by one name; `keep`: with what they hold."""

    def __init__(self, name: str, tensors: list[torch.Tensor], keep: bool) -> None:
        self.name, self.tensors, self.keep = name, tensors, keep

    def release(self, saver: Any) -> None:
        self.before = [
            (one.cpu().clone() if self.keep else torch.zeros(one.shape, dtype=one.dtype))
            for one in self.tensors
        ]
        self.lay = [one.data_ptr() for one in self.tensors]
        self.sizes = [one.untyped_storage().nbytes() for one in self.tensors]
        saver.release(self.name, self.tensors, keep_content=self.keep)

    def resume(self, saver: Any, subject: Subject, time: str) -> None:
        answer = saver.resume(self.name)
        subject.synchronize()
        moved = [one.data_ptr() for one in self.tensors] != self.lay
        expect(
            answer is True or (answer is False and not moved),
            f"resume({self.name!r}){time} answers {answer!r}, and the memory"
            f" {'lies elsewhere' if moved else 'lies where it lay'}",
        )
        now = [one.untyped_storage().nbytes() for one in self.tensors]
        lost = [at for at, size in enumerate(now) if size != self.sizes[at]]
        after = f"after resume({self.name!r}){time} tensors"
        expect(not lost, f"{after} {lost} of {len(now)} have no memory yet")
        if not self.keep:
            self.expect_held(
                f"{after} %s of {len(now)}, whose content was not kept, hold what lay there before, and must be zeros:"
                " the next step reads the padding row"
            )

    def expect_held(self, what: str) -> None:
        pairs = enumerate(zip(self.tensors, self.before, strict=True))
        wrong = [at for at, (one, was) in pairs if one.shape != was.shape or not torch.equal(one.cpu(), was)]
        where = [(at, self.tensors[at].storage_offset()) for at in wrong]
        shown = [f"{at} (number {first} of its memory on)" if first else str(at) for at, first in where]
        expect(not wrong, what % f"[{', '.join(shown)}]")


def _parts_of(memories: list[torch.Tensor]) -> list[torch.Tensor]:
    return [memory[part] for memory, parts in zip(memories, _PARTS, strict=True) for part in parts]


@_check(
    fix="keep what `keep_content` asks for, tag by tag, of each storage all that its tensors hold, which may be several"
    " parts of it, write zeros into what was not kept, and let resume() answer True where any address is another than"
    " before: graphs hold addresses"
)
def released_memory_comes_back(subject: Subject) -> None:
    """Tensors have their memory back, tag by tag in any order, with their shapes and, where that was asked for, what
    they held last, else zeros, also those that are parts of one memory; `resume()` says so where an address is another
    than before."""
    saver, generator = memory_saver(subject), subject.torch_rng()
    weights, cache = ([torch.empty(size).to(subject.device) for size in _SIZES] for _ in range(2))
    # As weights of 4 bits, and their zero points, are.
    packed = [torch.empty(4096, dtype=dtype).to(subject.device) for dtype in (torch.int32, torch.uint8)]
    views = [weights[2][: 1 << 10], weights[2].view(1 << 10, -1)]
    fused, parts = (
        [torch.empty(size).to(subject.device) for size in [_FUSED] * len(_PARTS)] for _ in range(2)
    )
    held = _Tag("weights", [*weights, *views, *packed, *_parts_of(fused)], True)
    other = _Tag("kv_cache", [*cache, *_parts_of(parts)], False)
    for time, order in (("", (held, other)), (", the second time", (other, held))):
        for tensor in (*weights, *cache, *fused, *parts):
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
        for tensor in packed:
            tensor.copy_(torch.randint(1, 200, tensor.shape, generator=generator).to(tensor.dtype))
        subject.synchronize()
        saver.release(_OF_NOTHING, [])
        held.release(saver)
        other.release(saver)
        others = [torch.ones(size, device=subject.device) for size in _SIZES for _ in range(3)]
        del others[::3]  # what is taken again may lie where these lay
        for tag in order:
            tag.resume(saver, subject, time)
        saver.resume(_OF_NOTHING)
        del others
        held.expect_held(
            f"released with keep_content{time}, tensors %s of {len(held.tensors)} hold something else afterwards"
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
