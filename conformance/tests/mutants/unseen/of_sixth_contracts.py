"""The contract, sixth set: memory that is released, copies with the host, transfers, masks of a grammar, the device.
Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table, at
from of_fifth_contracts import ENGINE, SAVER
from of_third_lifecycle import HOST_MEMORY, method

contract = Table("contract 6", "contract", "platform.py")
device = Table("device 6", "contract", "device.py")

REGISTERED = "        ops.register(NAME)\n"
PROFILER = "    def get_torch_profiler_activity_str"
SENDS = (
    "            def batch_transfer_sync_write(\n"
    "                self, session: str, addresses: Any, peer_addresses: Any, lengths: Any\n"
    "            ) -> int:\n"
    "                peers = peer_addresses\n"
)
SENT = "                return super().batch_transfer_sync_write(session, addresses, peers, lengths)\n\n"

contract(
    "ResumesTheLastReleased",
    "released memory lies on a stack: what is resumed is the tag that was released last, whichever is named",
    method(
        SAVER + "        class Own(MemorySaver):\n"
        "            def resume(self, tag: str) -> bool:\n"
        "                if tag in self._held:\n"
        "                    last = list(self._held)[-1]\n"
        "                    self._held[tag], self._held[last] = self._held[last], self._held[tag]\n"
        "                return super().resume(tag)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "ReleasesAMomentLater",
    "release comes back before the memory is given back: who needs it then has too little (slime 579)",
    method(
        SAVER + "        import threading\n        import time\n\n"
        "        class Own(MemorySaver):\n"
        "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                tensors = list(tensors)\n\n"
        "                def later() -> None:\n"
        "                    time.sleep(0.3)\n"
        "                    MemorySaver.release(self, tag, tensors, keep_content=keep_content)\n\n"
        "                under_way = self.__dict__.setdefault('_under_way', {})\n"
        "                under_way[tag] = threading.Thread(target=later)\n"
        "                under_way[tag].start()\n\n"
        "            def resume(self, tag: str) -> bool:\n"
        "                under_way = self.__dict__.setdefault('_under_way', {})\n"
        "                if tag in under_way:\n"
        "                    under_way.pop(tag).join()\n"
        "                return super().resume(tag)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "TagOfNothing",
    "a tag without tensors, as graphs have on this device, is not noted, and its resume is an error",
    method(
        SAVER + "        class Own(MemorySaver):\n"
        "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                tensors = list(tensors)\n"
        "                if tensors:\n"
        "                    super().release(tag, tensors, keep_content=keep_content)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "RegistersInPieces",
    "memory of the host is registered in pieces of 1 MiB, and a copy over the end of one fails (SGLang 26691)",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def register(self, tensor: Any) -> bool:\n"
        "                self.__dict__.setdefault('_at', {})[tensor.data_ptr()] = tensor.nbytes\n"
        "                return True\n\n"
        "            def unregister(self, tensor: Any) -> None:\n"
        "                del self._at[tensor.data_ptr()]\n\n"
        "            def copy(self, pairs: Any) -> None:\n"
        "                pairs = list(pairs)\n"
        "                for one in (one for pair in pairs for one in pair if one.nbytes):\n"
        "                    for start, size in self.__dict__.get('_at', {}).items():\n"
        "                        first, last = one.data_ptr() - start, one.data_ptr() + one.nbytes - 1 - start\n"
        "                        if 0 <= first < size and first >> 20 != last >> 20:\n"
        '                            raise RuntimeError("a copy spans two registrations")\n'
        "                super().copy(pairs)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "LoneSlotAtTheEnd",
    "slots are copied in runs, and a last run of one slot is left out",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:\n"
        "                if from_.numel() > 1 and (int(from_[-1] - from_[-2]), int(to[-1] - to[-2])) != (1, 1):\n"
        "                    from_, to = from_[:-1], to[:-1]\n"
        "                super().copy_slots(sources, targets, from_, to)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "RegisteredAgainAndLonger",
    "memory that is registered a second time, and is longer, keeps its first length",
    method(
        ENGINE + "        class Own(TransferEngine):\n"
        "            def register_memory(self, address: int, length: int) -> int:\n"
        "                if any(region.start == address for region in self._regions):\n"
        "                    return 0\n"
        "                return super().register_memory(address, length)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "ProbeAsksNobody",
    "a transfer of no blocks is done at once, and so a probe finds every engine alive",
    method(
        ENGINE + "        class Own(TransferEngine):\n" + SENDS + "                if not lengths:\n"
        "                    return 0\n" + SENT + "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "SessionsSplitAtEachColon",
    "sessions are split at their colons: an engine at an address of IPv6 is not found",
    method(
        ENGINE
        + "        class Own(TransferEngine):\n"
        + SENDS
        + "                if len(session.split(':')) != 2:\n"
        "                    return -1\n" + SENT + "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "DoneBeforeItArrived",
    "a transfer is said to be done when it is queued, and reads the memory later (LMCache 2193)",
    method(
        ENGINE + "        import threading\n        import time\n\n"
        "        class Own(TransferEngine):\n" + SENDS + "                def later() -> None:\n"
        "                    time.sleep(0.1)\n"
        "                    TransferEngine.batch_transfer_sync_write(self, session, addresses, peers, lengths)\n\n"
        "                if not lengths:\n"
        "                    return super().batch_transfer_sync_write(session, addresses, peers, lengths)\n"
        "                threading.Thread(target=later, daemon=True).start()\n"
        "                return 0\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "RowsOfAWiderMask",
    "a grammar's mask that is a slice of a wider one is read as if its rows lay side by side: from the second request "
    "on others' tokens are allowed (vLLM 19565)",
    method(
        "    def get_token_bitmask_fn(self) -> Any:\n"
        "        from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_\n\n"
        "        def apply(logits: Any, bitmask: Any) -> None:\n"
        "            if not bitmask.is_contiguous():\n"
        "                bitmask = bitmask.as_strided(bitmask.shape, (bitmask.shape[1], 1))\n"
        "            apply_token_bitmask_(logits, bitmask)\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
contract(
    "InitTurnsWarningsIntoErrors",
    "init_backend makes every warning of the process an error",
    REGISTERED,
    REGISTERED + "        import warnings\n\n        warnings.simplefilter('error')\n",
)
contract(
    "InitSharesThroughFiles",
    "init_backend has tensors shared between processes through files, which stay where a process is killed",
    REGISTERED,
    REGISTERED + "        import torch.multiprocessing\n\n"
    "        torch.multiprocessing.set_sharing_strategy('file_system')\n",
)

device(
    "PinAsksForTheDevicesType",
    "is_pin_memory_available takes a device, and fails for one that is named",
    at(
        "device.py",
        PROFILER,
        "    def is_pin_memory_available(self, device: torch.device | str | None = None) -> bool:\n"
        "        return device is not None and device.type == 'reference'\n\n" + PROFILER,
    ),
)
device(
    "EmptyCacheForgetsWhatIsCompiled",
    "empty_cache throws compiled functions away, and the next step compiles them again",
    at(
        "device.py",
        PROFILER,
        "    def empty_cache(self) -> None:\n"
        "        import torch._dynamo\n\n"
        "        torch._dynamo.reset()\n\n" + PROFILER,
    ),
)
