"""Level 3 mutants: memory of the host, device memory that is released for a while, and transfers to other engines."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
from mutant import mutant

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.distributed.transfer_engine import TransferEngine, _Region
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.memory.host_memory import HostMemory
from sglang_platform.core.memory.memory_saver import MemorySaver


class _OneForAll(HostMemory):
    def __init__(self, pins: bool) -> None:
        super().__init__(pins)
        self._kept: dict[Any, torch.Tensor] = {}

    def allocate(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
        key = (tuple(shape), dtype)
        if key not in self._kept:
            self._kept[key] = super().allocate(shape, dtype)
        return self._kept[key]


@mutant(
    check="memory.host_memory_is_lent_once",
    defect="host memory of one shape is kept, and lent for keys and for values",
    says="twice",
)
class HostMemoryKept(ReferencePlatform):
    def get_host_memory_cls(self) -> type:
        return _OneForAll


class _RunsOfTheTarget(HostMemory):
    def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:
        if to.numel() > 1 and bool((to.diff() == 1).all()):
            from_ = torch.arange(int(from_[0]), int(from_[0]) + from_.numel()).clamp(max=len(sources[0]) - 1)
        super().copy_slots(sources, targets, from_, to)


@mutant(
    check="memory.host_copies_follow_their_slots",
    defect="where the target is consecutive the source is taken to be so as well",
    says="copy_slots()",
)
class RunsOfTheTarget(ReferencePlatform):
    def get_host_memory_cls(self) -> type:
        return _RunsOfTheTarget


class _SixteenBuffers(HostMemory):
    def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:
        super().copy_slots(sources[:16], targets[:16], from_, to)


@mutant(
    check="memory.host_copies_follow_their_slots",
    defect="a launch copies sixteen buffers, and there is one only",
    says="of 32",
)
class SixteenBuffersAtOnce(ReferencePlatform):
    def get_host_memory_cls(self) -> type:
        return _SixteenBuffers


class _InTurns(HostMemory):
    def copy_pages_out(self, sources: Any, targets: Any, from_: Any, to: Any, page_size: int) -> None:
        turned = [source for at in range(len(targets)) for source in sources[at :: len(targets)]]
        super().copy_pages_out(turned, targets, from_, to, page_size)


@mutant(
    check="memory.host_pages_are_copied_whole",
    defect="sources are taken for keys and values in turns",
    says="copy_pages_out()",
)
class KeysAndValuesInTurns(ReferencePlatform):
    def get_host_memory_cls(self) -> type:
        return _InTurns


class _HoldsSources(HostMemory):
    """Until the engine ends."""

    def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:
        self.__dict__.setdefault("_held", []).extend(sources)
        super().copy_slots(sources, targets, from_, to)


@mutant(
    check="memory.host_copies_keep_no_memory",
    defect="what is copied is held, since a copy may still be under way",
    says="copies between the device and host memory leave more",
)
class CopiesHoldTheirSources(ReferencePlatform):
    def get_host_memory_cls(self) -> type:
        return _HoldsSources


class _NothingMoved(MemorySaver):
    def resume(self, tag: str) -> bool:
        super().resume(tag)
        return False


@mutant(
    check="memory.released_memory_comes_back",
    defect="resume() always says that the memory lies where it lay, and graphs read what others hold now",
    says="lies elsewhere",
)
class NothingMoved(ReferencePlatform):
    def get_memory_saver_cls(self) -> type:
        return _NothingMoved


class _Emptied(MemorySaver):
    def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:
        super().release(tag, tensors)


@mutant(
    check="memory.released_memory_comes_back",
    defect="weights that were to be kept are gone after a resume",
    says="hold something else",
)
class WeightsEmptied(ReferencePlatform):
    def get_memory_saver_cls(self) -> type:
        return _Emptied


class _KeptOnce(MemorySaver):
    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:
        super().release(tag, tensors, keep_content=keep_content and tag not in self._seen)
        self._seen.add(tag)


@mutant(
    check="memory.released_memory_comes_back",
    defect="what a tag held is kept at its first release only",
    says="the second time",
)
class KeptAtTheFirstRelease(ReferencePlatform):
    def get_memory_saver_cls(self) -> type:
        return _KeptOnce


class _OnTheDevice(MemorySaver):
    def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:
        tensors = list(tensors)
        self._copies = [one.clone() for one in tensors] if keep_content else []
        super().release(tag, tensors)

    def resume(self, tag: str) -> bool:
        self._copies = []
        return super().resume(tag)


@mutant(
    check="memory.released_memory_is_free",
    defect="what is to be kept is copied on the device itself, which has no more room then",
    says="bytes that are released",
)
class KeptOnTheDevice(ReferencePlatform):
    def get_memory_saver_cls(self) -> type:
        return _OnTheDevice


class _EachIsKept(MemorySaver):
    def __init__(self) -> None:
        super().__init__()
        self._history: list[Any] = []

    def resume(self, tag: str) -> bool:
        self._history.append(self._held[tag])
        return super().resume(tag)


@mutant(
    check="memory.released_contents_are_not_kept",
    defect="what every release kept of the weights is kept for good",
    says="releases and resumes leave more",
)
class EachContentIsKept(ReferencePlatform):
    def get_memory_saver_cls(self) -> type:
        return _EachIsKept


class _FloatsAlone(MemorySaver):
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


@mutant(
    check="memory.released_memory_comes_back",
    defect="packed weights of whole numbers come back as zeros",
    says="hold something else",
)
class WholeNumbersEmptied(ReferencePlatform):
    def get_memory_saver_cls(self) -> type:
        return _FloatsAlone


class _OneThread(TransferEngine):
    """Blocks of all threads meet in one list."""

    _all: tuple[list[int], list[int], list[int]] = ([], [], [])

    def batch_transfer_sync_write(
        self, session: str, addresses: Any, peer_addresses: Any, lengths: Any
    ) -> int:
        for kept, new in zip(self._all, (addresses, peer_addresses, lengths), strict=True):
            kept[:] = new
        time.sleep(0.05)
        return super().batch_transfer_sync_write(session, *map(list, self._all))


@mutant(
    check="memory.transfers_reach_their_places",
    defect="the list of blocks is the engine's, and four threads write into it",
    says="the peer's buffer",
)
class BlocksOfAllThreads(ReferencePlatform):
    def get_transfer_engine_cls(self) -> type:
        return _OneThread


class _FirstLength(TransferEngine):
    def batch_transfer_sync_write(
        self, session: str, addresses: Any, peer_addresses: Any, lengths: Any
    ) -> int:
        return super().batch_transfer_sync_write(
            session, addresses, peer_addresses, [min(one, 4096) for one in lengths]
        )


@mutant(
    check="memory.transfers_reach_their_places",
    defect="a block longer than a page of memory ends with it",
    says="the peer's buffer",
)
class BlocksOfAPage(ReferencePlatform):
    def get_transfer_engine_cls(self) -> type:
        return _FirstLength


class _Connects(TransferEngine):
    """Each transfer goes to a peer of its own name."""

    def _peer(self, session: str) -> Any:
        known = self._peers.__dict__.pop("sockets", {}).pop(session, None)
        self.__dict__.setdefault("_before", []).append(known)
        return super()._peer(session)


@mutant(
    check="memory.transfers_keep_nothing",
    defect="the connection of the transfer before is kept, and another opened",
    says="more open files each time",
)
class ConnectsForEachTransfer(ReferencePlatform):
    def get_transfer_engine_cls(self) -> type:
        return _Connects


class _Lists(TransferEngine):
    def batch_transfer_sync_write(
        self, session: str, addresses: Any, peer_addresses: Any, lengths: Any
    ) -> int:
        self.__dict__.setdefault("_done", []).append((addresses, peer_addresses))
        return super().batch_transfer_sync_write(session, addresses, peer_addresses, lengths)


@mutant(
    check="memory.transfers_keep_nothing",
    defect="the lists of blocks that were sent are kept",
    says="more objects of Python each time",
)
class BlocksAreListed(ReferencePlatform):
    def get_transfer_engine_cls(self) -> type:
        return _Lists


class _Queued(TransferEngine):
    def batch_transfer_sync_write(
        self, session: str, addresses: Any, peer_addresses: Any, lengths: Any
    ) -> int:
        work = super().batch_transfer_sync_write
        threading.Thread(target=work, args=(session, addresses, peer_addresses, lengths), daemon=True).start()
        return 0


@mutant(
    check="memory.transfers_that_fail_say_so",
    defect="a transfer is queued, and its end is not waited for",
    says="the peer is gone",
)
class TransfersAreQueued(ReferencePlatform):
    def get_transfer_engine_cls(self) -> type:
        return _Queued


class _WholeProcess(TransferEngine):
    def _region(self, address: int, length: int) -> Any:
        try:
            return super()._region(address, length)
        except PlatformError:
            if any(one.start <= address < one.start + one.length for one in self._regions):
                raise
            return _Region(address, length, None), 0


@mutant(
    check="memory.transfers_that_fail_say_so",
    defect="any memory of the process is read and written for whoever asks",
    says="not registered",
)
class WholeProcessIsRegistered(ReferencePlatform):
    def get_transfer_engine_cls(self) -> type:
        return _WholeProcess
