"""Level 3 mutants: memory of the host, device memory that is released for a while, and transfers to other engines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from mutant import mutant

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.distributed.transfer_engine import TransferEngine, _Region
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.host_memory import HostMemory
from sglang_platform.core.memory.memory_saver import MemorySaver

GETTERS = {
    HostMemory: "get_host_memory_cls",
    MemorySaver: "get_memory_saver_cls",
    TransferEngine: "get_transfer_engine_cls",
}


def part(**said: str) -> Callable[[type], type]:
    """Decorates the wrong part; the mutant, under its name, is a platform that has it."""

    def register(wrong: type) -> type:
        getter = next(GETTERS[base] for base in wrong.__mro__ if base in GETTERS)
        methods = {getter: lambda self: wrong, "__module__": wrong.__module__}
        return mutant(**said)(type(wrong.__name__, (ReferencePlatform,), methods))  # type: ignore[no-any-return,arg-type]

    return register


@part(
    check="memory.host_memory_is_lent_once",
    defect="host memory of one shape is kept, and lent for keys and for values",
    says="twice",
)
class HostMemoryKept(HostMemory):
    def __init__(self, pins: bool) -> None:
        super().__init__(pins)
        self._kept: dict[Any, torch.Tensor] = {}

    def allocate(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
        key = (tuple(shape), dtype)
        if key not in self._kept:
            self._kept[key] = super().allocate(shape, dtype)
        return self._kept[key]


@part(
    check="memory.host_copies_follow_their_slots",
    defect="where the target is consecutive the source is taken to be so as well",
    says="copy_slots()",
)
class RunsOfTheTarget(HostMemory):
    def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:
        if to.numel() > 1 and bool((to.diff() == 1).all()):
            from_ = torch.arange(int(from_[0]), int(from_[0]) + from_.numel()).clamp(max=len(sources[0]) - 1)
        super().copy_slots(sources, targets, from_, to)


@part(
    check="memory.host_copies_follow_their_slots",
    defect="a launch copies sixteen buffers, and there is one only",
    says="of 32",
)
class SixteenBuffersAtOnce(HostMemory):
    def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:
        super().copy_slots(sources[:16], targets[:16], from_, to)


@part(
    check="memory.host_pages_are_copied_whole",
    defect="sources are taken for keys and values in turns",
    says="copy_pages_out()",
)
class KeysAndValuesInTurns(HostMemory):
    def copy_pages_out(self, sources: Any, targets: Any, from_: Any, to: Any, page_size: int) -> None:
        turned = [source for at in range(len(targets)) for source in sources[at :: len(targets)]]
        super().copy_pages_out(turned, targets, from_, to, page_size)


@part(
    check="memory.host_copies_keep_no_memory",
    defect="what is copied is held, since a copy may still be under way",
    says="copies between the device and host memory leave more",
)
class CopiesHoldTheirSources(HostMemory):
    """Until the engine ends."""

    def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:
        self.__dict__.setdefault("_held", []).extend(sources)
        super().copy_slots(sources, targets, from_, to)


@part(
    check="memory.released_memory_comes_back",
    defect="resume() always says that the memory lies where it lay, and graphs read what others hold now",
    says="lies elsewhere",
)
class NothingMoved(MemorySaver):
    def resume(self, tag: str) -> bool:
        super().resume(tag)
        return False


@part(
    check="memory.released_memory_comes_back",
    defect="weights that were to be kept are gone after a resume",
    says="hold something else",
)
class WeightsEmptied(MemorySaver):
    def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:
        super().release(tag, tensors)


@part(
    check="memory.released_memory_comes_back",
    defect="what a tag held is kept at its first release only",
    says="the second time",
)
class KeptAtTheFirstRelease(MemorySaver):
    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:
        super().release(tag, tensors, keep_content=keep_content and tag not in self._seen)
        self._seen.add(tag)


@part(
    check="memory.released_memory_is_free",
    defect="what is to be kept is copied on the device itself, which has no more room then",
    says="bytes that are released",
)
class KeptOnTheDevice(MemorySaver):
    def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:
        tensors = list(tensors)
        self._copies = [one.clone() for one in tensors] if keep_content else []
        super().release(tag, tensors)

    def resume(self, tag: str) -> bool:
        self._copies = []
        return super().resume(tag)


@part(
    check="memory.released_contents_are_not_kept",
    defect="what every release kept of the weights is kept for good",
    says="releases and resumes leave more",
)
class EachContentIsKept(MemorySaver):
    def __init__(self) -> None:
        super().__init__()
        self._history: list[Any] = []

    def resume(self, tag: str) -> bool:
        self._history.append(self._held[tag])
        return super().resume(tag)


@part(
    check="memory.released_memory_comes_back",
    defect="packed weights of whole numbers come back as zeros",
    says="hold something else",
)
class WholeNumbersEmptied(MemorySaver):
    def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:
        tensors = list(tensors)
        super().release(tag, tensors, keep_content=keep_content)
        if keep_content:
            self._numbers = [one for one in tensors if not one.is_floating_point()]

    def resume(self, tag: str) -> bool:
        answer = super().resume(tag)
        for one in self.__dict__.pop("_numbers", ()):
            one.zero_()
        return answer


@part(
    check="memory.transfers_reach_their_places",
    defect="the list of blocks is the engine's, and four threads write into it",
    says="the peer's buffer",
)
class BlocksOfAllThreads(TransferEngine):
    """Blocks of all threads meet in one list."""

    _all: tuple[list[int], list[int], list[int]] = ([], [], [])

    def batch_transfer_sync_write(
        self, session: str, addresses: Any, peer_addresses: Any, lengths: Any
    ) -> int:
        for kept, new in zip(self._all, (addresses, peer_addresses, lengths), strict=True):
            kept[:] = new
        time.sleep(0.05)
        return super().batch_transfer_sync_write(session, *map(list, self._all))


@part(
    check="memory.transfers_reach_their_places",
    defect="a block longer than a page of memory ends with it",
    says="the peer's buffer",
)
class BlocksOfAPage(TransferEngine):
    def batch_transfer_sync_write(
        self, session: str, addresses: Any, peer_addresses: Any, lengths: Any
    ) -> int:
        return super().batch_transfer_sync_write(
            session, addresses, peer_addresses, [min(one, 4096) for one in lengths]
        )


@part(
    check="memory.transfers_keep_nothing",
    defect="the connection of the transfer before is kept, and another opened",
    says="more open files each time",
)
class ConnectsForEachTransfer(TransferEngine):
    """Each transfer goes to a peer of its own name."""

    def _peer(self, session: str) -> Any:
        known = self._peers.__dict__.pop("sockets", {}).pop(session, None)
        self.__dict__.setdefault("_before", []).append(known)
        return super()._peer(session)


@part(
    check="memory.transfers_keep_nothing",
    defect="the lists of blocks that were sent are kept",
    says="more objects of Python each time",
)
class BlocksAreListed(TransferEngine):
    def batch_transfer_sync_write(
        self, session: str, addresses: Any, peer_addresses: Any, lengths: Any
    ) -> int:
        self.__dict__.setdefault("_done", []).append((addresses, peer_addresses))
        return super().batch_transfer_sync_write(session, addresses, peer_addresses, lengths)


@part(
    check="memory.transfers_that_fail_say_so",
    defect="a transfer is queued, and its end is not waited for",
    says="the peer is gone",
)
class TransfersAreQueued(TransferEngine):
    def batch_transfer_sync_write(
        self, session: str, addresses: Any, peer_addresses: Any, lengths: Any
    ) -> int:
        work = super().batch_transfer_sync_write
        threading.Thread(target=work, args=(session, addresses, peer_addresses, lengths), daemon=True).start()
        return 0


@part(
    check="memory.transfers_that_fail_say_so",
    defect="any memory of the process is read and written for whoever asks",
    says="not registered",
)
class WholeProcessIsRegistered(TransferEngine):
    def _region(self, address: int, length: int) -> Any:
        try:
            return super()._region(address, length)
        except PlatformError:
            if any(one.start <= address < one.start + one.length for one in self._regions):
                raise
            return _Region(address, length, None), 0


@part(
    check="memory.released_memory_comes_back",
    defect="of a storage that several tensors share only what the first one holds is kept",
    says="of its memory on",
)
class FirstPartOfAStorageKept(MemorySaver):
    def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:
        tensors = list(tensors)
        first: dict[int, torch.Tensor] = {}
        for one in tensors:
            first.setdefault(one.untyped_storage().data_ptr(), one)
        contents = (
            [(one, one.detach().to("cpu", copy=True)) for one in first.values()] if keep_content else []
        )
        super().release(tag, tensors)
        self.__dict__.setdefault("contents", {})[tag] = contents

    def resume(self, tag: str) -> bool:
        moved = super().resume(tag)
        with torch.no_grad():
            for one, content in self.__dict__["contents"].pop(tag):
                one.detach().copy_(content)
        return moved
