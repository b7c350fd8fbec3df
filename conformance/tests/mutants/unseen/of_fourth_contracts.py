"""The contract, fourth set: what init_backend and post_load_model leave, memory that is set aside, several senders."""

from __future__ import annotations

from broken import Table, at
from of_third_lifecycle import HOST_MEMORY, method

contract = Table("contract 4", "contract", "platform.py")

INIT = "        ops.register(NAME)\n"
FREE = "        return _available(), self.get_device_total_memory()\n"
MEMORY_LINE = '        if line.startswith("MemAvailable:"):\n'
SAVER = (
    "    def get_memory_saver_cls(self) -> type | None:\n"
    "        from sglang_platform.core.memory.memory_saver import MemorySaver\n\n"
    "        class Own(MemorySaver):\n"
)
ENGINE = (
    "    def get_transfer_engine_cls(self) -> type | None:\n"
    "        from sglang_platform.core.distributed.transfer_engine import TransferEngine\n\n"
    "        class Own(TransferEngine):\n"
)

contract(
    "PostLoadUntiesWeights",
    "post_load_model gives each module a copy of its weight: a head that is tied to the embedding has one of its own",
    method(
        "    def post_load_model(self, model: Any) -> None:\n"
        "        import torch\n\n"
        "        for module in model.modules():\n"
        "            weight = module._parameters.get('weight')\n"
        "            if weight is not None:\n"
        "                module.weight = torch.nn.Parameter(weight.detach().clone(), requires_grad=False)\n"
    ),
)
contract(
    "PostLoadCastsTables",
    "post_load_model casts a model's buffers, its rotary table among them, to bfloat16",
    method(
        "    def post_load_model(self, model: Any) -> None:\n"
        "        import torch\n\n"
        "        for module in model.modules():\n"
        "            for name, buffer in module._buffers.items():\n"
        "                if buffer is not None and buffer.is_floating_point():\n"
        "                    module._buffers[name] = buffer.to(torch.bfloat16)\n"
    ),
)
contract(
    "PostLoadHooksAddUp",
    "post_load_model adds a hook to each module, one more each time that weights are loaded",
    method(
        "    def post_load_model(self, model: Any) -> None:\n"
        "        for module in model.modules():\n"
        "            module.register_forward_pre_hook(lambda *args: None)\n"
    ),
)
contract(
    "InitTakesSigterm",
    "init_backend has a handler for SIGTERM: a worker that is asked to end goes on",
    INIT,
    INIT + "        import signal\n\n        signal.signal(signal.SIGTERM, lambda *args: None)\n",
)
contract(
    "InitPinsToOneCore",
    "init_backend ties the process to one core",
    INIT,
    INIT + "        import os\n\n        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n",
)
contract(
    "InitStopsCollecting",
    "init_backend switches the garbage collector off",
    INIT,
    INIT + "        import gc\n\n        gc.disable()\n",
)
contract(
    "InitLeavesAThread",
    "init_backend starts a thread that watches the device, and the process cannot end while it runs",
    INIT,
    INIT + "        import threading\n        import time\n\n"
    "        threading.Thread(target=time.sleep, args=(3600,), daemon=False).start()\n",
)
contract(
    "ExitTakesAMinute",
    "init_backend registers a function that takes a minute when the process ends",
    INIT,
    INIT + "        import atexit\n        import time\n\n        atexit.register(time.sleep, 60)\n",
)
contract(
    "FilesCountAsUsed",
    "free memory leaves out what only holds files: once a checkpoint was read, little is free",
    at("device.py", MEMORY_LINE, '        if line.startswith("MemFree:"):\n'),
)
contract(
    "HandleForEachQuestion",
    "each question for free memory opens a handle of the driver that stays open",
    at(
        "device.py",
        FREE,
        "        handles = self.__dict__.setdefault('_handles', [])\n"
        "        handles.append(open(os.devnull))\n" + FREE,
    ),
)
contract(
    "SaverResumesAll",
    "resume takes the memory of every tag again, and the host's next resume finds none",
    method(
        SAVER + "            def resume(self, tag: str) -> bool:\n"
        "                return any([super(Own, self).resume(one) for one in list(self.released())])\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "SaverKeepsTheFirstContent",
    "what a tag held at its first release is what it holds after each resume",
    method(
        SAVER
        + "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                super().release(tag, tensors, keep_content=keep_content)\n"
        "                kept = self.__dict__.setdefault('_first', {})\n"
        "                held = [one._replace(content=kept.setdefault((tag, at), one.content))\n"
        "                        for at, one in enumerate(self._held[tag])]\n"
        "                self._held[tag] = held if keep_content else self._held[tag]\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "SaverReleasesNothing",
    "release gives no memory back",
    method(
        SAVER
        + "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                self._held[tag] = []\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "HostCopiesInAThread",
    "copies to and from the host are made by a thread that nothing waits for",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy(self, pairs: Any) -> None:\n"
        "                import threading\n\n"
        "                held = list(pairs)\n"
        "                threading.Timer(0.05, super().copy, (held,)).start()\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "HostPagesOfTheFirstLayer",
    "of values that come in pages from the host, each layer gets those of layer 0",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy_pages_in(\n"
        "                self, sources: Any, targets: Any, from_: Any, to: Any, layer: int, page_size: int\n"
        "            ) -> None:\n"
        "                super().copy_pages_in(sources[:1], targets[:1], from_, to, layer, page_size)\n"
        "                super().copy_pages_in(sources[1:], targets[1:], from_, to, 0, page_size)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "TransfersOfThreadsMix",
    "all threads of a worker send over one connection: what two send at once arrives mixed",
    method(
        ENGINE + "            def __init__(self, memory_at: Any, device: Any) -> None:\n"
        "                from types import SimpleNamespace\n\n"
        "                super().__init__(memory_at, device)\n"
        "                self._peers = SimpleNamespace()\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "TransferRefusesTheLastByte",
    "a block that ends where its registered region ends is refused: the last page of each buffer",
    method(
        ENGINE + "            def _region(self, address: int, length: int) -> Any:\n"
        "                region, offset = super()._region(address, length)\n"
        "                if offset and offset + length == region.length:\n"
        "                    from sglang_platform.core.errors import PlatformError\n\n"
        "                    raise PlatformError(f'{length} bytes at {address:#x} are not registered')\n"
        "                return region, offset\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "BitmaskOf16BitsIsACopy",
    "logits of 16 bits are masked in a copy in float32, which is dropped",
    method(
        "    def get_token_bitmask_fn(self) -> Any:\n"
        "        from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_\n\n"
        "        return lambda logits, bitmask: apply_token_bitmask_(logits.float(), bitmask)\n"
    ),
    levels="contract kernels",
)
