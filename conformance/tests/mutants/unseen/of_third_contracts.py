"""Answers, the device's conduct and the lifecycle, third set: what differs by process or by call, and what stays set."""

from __future__ import annotations

from broken import Edit, Table, at, end

contract = Table("contract 3", "contract", "platform.py")
device = Table("device 3", "contract", "device.py")

INIT = "        ops.register(NAME)\n"
BEFORE_INIT = "    def init_backend(self) -> None:\n"
KIND = '        module, _, name = KINDS[kv_pool_kind(kind)].reference.partition(":")\n'
COMPILE = '        return "eager"\n'
BEFORE_PROFILER = "    def get_torch_profiler_activity_str(self) -> str:\n"
DEVICE = '    def get_device(self, device_id: int = 0) -> torch.device:\n        import torch\n\n        return torch.device("cpu")\n'
SET = '        """There is one device."""\n'
UUID = '        return f"reference-{platform.node()}-{device_id}"\n'
TOTAL = '        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")\n\n    def get_available'
FREE = "        return _available(), self.get_device_total_memory()\n"
USED = "        free, total = self.get_available_memory()\n        return float(total - free)\n"


def method(text: str) -> Edit:
    """The platform with one more method."""
    return at("platform.py", BEFORE_INIT, f"{text}\n{BEFORE_INIT}")


def of_device(text: str) -> Edit:
    """The device with one more method."""
    return at("device.py", BEFORE_PROFILER, f"{text}\n{BEFORE_PROFILER}")


def on_init(text: str) -> tuple[str, str]:
    return INIT, INIT + text


# What init_backend leaves behind

contract(
    "InitFlushesDenormals",
    "init_backend makes the processor flush denormal numbers to zero",
    *on_init("        import torch\n\n        torch.set_flush_denormal(True)\n"),
)
contract(
    "InitSocketsTimeOut",
    "init_backend gives every new socket of the process a time-out of a second",
    *on_init("        import socket\n\n        socket.setdefaulttimeout(1.0)\n"),
)
contract(
    "InitNumpyRaises",
    "init_backend makes numpy raise where it would warn",
    *on_init("        import numpy\n\n        numpy.seterr(all='raise')\n"),
)
contract(
    "InitMask",
    "init_backend sets the mask of new files, so that others cannot read the engine's",
    *on_init("        import os\n\n        os.umask(0o177)\n"),
)
contract(
    "InitFewFiles",
    "init_backend lowers the number of files that the process may open",
    *on_init(
        "        import resource\n\n"
        "        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
    ),
)
contract(
    "InitInAFolder",
    "init_backend goes to another working folder",
    *on_init("        import os\n        import tempfile\n\n        os.chdir(tempfile.gettempdir())\n"),
)
contract(
    "InitMatmulPrecision",
    "init_backend lowers the precision of float32 products",
    *on_init("        import torch\n\n        torch.set_float32_matmul_precision('medium')\n"),
)
contract(
    "InitDeterministic",
    "init_backend makes torch refuse operators that are not deterministic",
    *on_init("        import torch\n\n        torch.use_deterministic_algorithms(True)\n"),
)
contract(
    "InitExceptHook",
    "init_backend replaces the hook for errors of threads, and they are lost",
    *on_init("        import threading\n\n        threading.excepthook = lambda args: None\n"),
)
contract(
    "InitTwiceRaises",
    "init_backend raises when it is called a second time in a process",
    *on_init(
        "        if globals().get('_initialised'):\n"
        "            raise RuntimeError('the runtime was initialised')\n"
        "        globals()['_initialised'] = True\n"
    ),
)
contract(
    "InitSwitchesThreadsSeldom",
    "init_backend lets a thread run for a second before others get a turn",
    *on_init("        import sys\n\n        sys.setswitchinterval(1.0)\n"),
)
contract(
    "InitProxies",
    "init_backend tells every library of the process to go past the proxies",
    *on_init("        import os\n\n        os.environ['NO_PROXY'] = os.environ['no_proxy'] = '*'\n"),
)

# Answers

contract(
    "OlderNameOfDsa",
    "the older name of a kind of pool is a KeyError",
    KIND,
    '        module, _, name = KINDS[kind].reference.partition(":")\n',
)
contract(
    "PoolThroughAFunction",
    "the pool of latent rows is a function that builds one",
    KIND,
    '        if kind == "mla":\n            return lambda **keywords: None  # type: ignore[return-value]\n'
    + KIND,
)
contract(
    "CompileBackendOfTheMode",
    "the compile backend for a mode is the mode",
    COMPILE,
    '        return mode or "eager"\n',
)
contract(
    "BackendsOnce",
    "attention backends are answered at the first question only",
    "        return {NAME: ReferenceAttention}\n",
    "        if self.__dict__.get('_asked'):\n"
    "            return {}\n"
    "        self._asked = True\n"
    "        return {NAME: ReferenceAttention}\n",
)
contract(
    "NewClassForEachQuestion",
    "each question for the paged allocator is answered with a class of its own",
    "        return ReferencePagedAllocator\n",
    "        return type('ReferencePagedAllocator', (ReferencePagedAllocator,), {})\n",
)
contract(
    "QuantizationAnswersFalse",
    "a method of quantisation that it does not run is answered with False",
    of_device(
        "    def verify_quantization(self, quant: str) -> None:\n        return False  # type: ignore[return-value]\n"
    ),
)
contract(
    "QuantizationDeclaredAndRefused",
    "it declares a method of quantisation and refuses it",
    at(
        "platform.py",
        "    attention_features = (\n",
        '    supported_quantization = ["w8a8_int8", "fp8"]\n    attention_features = (\n',
    ),
    of_device(
        "    def verify_quantization(self, quant: str) -> None:\n"
        '        if quant not in ("w8a8_int8",):\n'
        '            raise ValueError(f"{quant} does not run here")\n'
    ),
)
contract(
    "BitmaskLosesTheLastWord",
    "where the vocabulary is no multiple of 32, tokens of the mask's last word stay allowed",
    method(
        "    def get_token_bitmask_fn(self) -> Any:\n"
        "        import torch\n\n"
        "        from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_\n\n"
        "        def apply(logits: torch.Tensor, bitmask: torch.Tensor) -> None:\n"
        "            whole = logits.shape[1] // 32 * 32\n"
        "            apply_token_bitmask_(logits[:, :whole], bitmask[:, : whole // 32])\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
contract(
    "BitmaskOfThePaddedVocabulary",
    "logits that are a slice of a padded vocabulary are masked as if their rows lay side by side",
    method(
        "    def get_token_bitmask_fn(self) -> Any:\n"
        "        import torch\n\n"
        "        from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_\n\n"
        "        def apply(logits: torch.Tensor, bitmask: torch.Tensor) -> None:\n"
        "            rows = logits.as_strided(logits.shape, (logits.shape[1], 1))\n"
        "            apply_token_bitmask_(rows, bitmask)\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
contract(
    "BitmaskPast128Rows",
    "rows past the 128th of a batch are not masked",
    method(
        "    def get_token_bitmask_fn(self) -> Any:\n"
        "        import torch\n\n"
        "        from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_\n\n"
        "        def apply(logits: torch.Tensor, bitmask: torch.Tensor) -> None:\n"
        "            apply_token_bitmask_(logits[:128], bitmask[:128])\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)

# Lifecycle

contract(
    "DefaultsOverTheOperator",
    "apply_server_args_defaults sets the page size also where the operator chose one",
    method(
        "    def apply_server_args_defaults(self, server_args: Any) -> None:\n        server_args.page_size = 16\n"
    ),
)
contract(
    "FinalizeAsksForArguments",
    "finalize_server_args reads an argument that releases before the newest lack",
    method(
        "    def finalize_server_args(self, server_args: Any) -> None:\n"
        "        if server_args.cuda_graph_config_of_device:\n"
        "            server_args.disable_cuda_graph = False\n"
    ),
)
contract(
    "LoadedModelInBfloat16",
    "post_load_model makes all weights bfloat16, a router's float32 ones too",
    method(
        "    def post_load_model(self, model: Any) -> None:\n"
        "        import torch\n\n"
        "        model.to(torch.bfloat16)\n"
    ),
)
contract(
    "LoadedModelTwice",
    "post_load_model transposes weights in place, and does it again when it is called for weights that were updated",
    method(
        "    def post_load_model(self, model: Any) -> None:\n"
        "        for weight in model.parameters():\n"
        "            if weight.dim() == 2:\n"
        "                weight.data = weight.data.t().contiguous()\n"
    ),
)
contract(
    "StubsWhatIsThere",
    "stub_modules names a module that can be imported, with an empty one in its place",
    method(
        "    def stub_modules(self) -> Any:\n"
        "        import types\n\n"
        '        return {"numpy": types.ModuleType("numpy")}\n'
    ),
)
contract(
    "OpensTheDeviceOfTheRank",
    "initialize_device takes the rank for the device's index on this machine",
    method(
        "    def initialize_device(self, rank: int, local_rank: int) -> None:\n"
        "        if rank >= 8:\n"
        '            raise RuntimeError(f"there is no device {rank}")\n'
    ),
)

# Host memory, memory saver, transfer engine

HOST_MEMORY = (
    "    def get_host_memory_cls(self) -> type | None:\n"
    "        from sglang_platform.core.memory.host_memory import HostMemory\n\n"
)
contract(
    "HostCopiesMergeRuns",
    "copies of slots from the host take runs that only the source makes for runs of both",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:\n"
        "                import torch\n\n"
        "                if from_.numel() and bool((from_.diff() == 1).all()):\n"
        "                    to = torch.arange(int(to[0]), int(to[0]) + to.numel())\n"
        "                super().copy_slots(sources, targets, from_, to)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "HostPagesOfOneTarget",
    "of more than eight buffers that leave the device in pages, eight are copied, to the first target",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy_pages_out(self, sources: Any, targets: Any, from_: Any, to: Any, page_size: int) -> None:\n"
        "                super().copy_pages_out(sources[:8], targets[:1] if len(sources) > 8 else targets, from_, to, page_size)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "HostMemoryOfTheLastTime",
    "memory of the host of one shape and type is given out twice",
    method(
        HOST_MEMORY + "        kept: dict[Any, Any] = {}\n\n"
        "        class Own(HostMemory):\n"
        "            def allocate(self, shape: Any, dtype: Any) -> Any:\n"
        "                key = (tuple(shape), dtype)\n"
        "                if key not in kept:\n"
        "                    kept[key] = super().allocate(shape, dtype)\n"
        "                return kept[key]\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "SaverSaysNothingMoved",
    "resume says that nothing lies elsewhere, though it does: graphs are not captured again",
    method(
        "    def get_memory_saver_cls(self) -> type | None:\n"
        "        from sglang_platform.core.memory.memory_saver import MemorySaver\n\n"
        "        class Own(MemorySaver):\n"
        "            def resume(self, tag: str) -> bool:\n"
        "                super().resume(tag)\n"
        "                return False\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "SaverForgetsViews",
    "release with keep_content keeps what the last view of a storage shows, not what the storage holds",
    method(
        "    def get_memory_saver_cls(self) -> type | None:\n"
        "        from sglang_platform.core.memory.memory_saver import MemorySaver\n\n"
        "        class Own(MemorySaver):\n"
        "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                tensors = list(tensors)\n"
        "                super().release(tag, tensors, keep_content=keep_content and len(tensors) < 2)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "TransfersOneBlock",
    "of a batch of blocks for a peer, those past the 64th are not sent",
    method(
        "    def get_transfer_engine_cls(self) -> type | None:\n"
        "        from sglang_platform.core.distributed.transfer_engine import TransferEngine\n\n"
        "        class Own(TransferEngine):\n"
        "            def batch_transfer_sync_write(\n"
        "                self, session: str, addresses: Any, peer_addresses: Any, lengths: Any\n"
        "            ) -> int:\n"
        "                return super().batch_transfer_sync_write(\n"
        "                    session, addresses[:64], peer_addresses[:64], lengths[:64]\n"
        "                )\n\n"
        "        return Own\n"
    ),
    levels="contract memory distributed",
)
contract(
    "TransferSaysItIsThere",
    "a transfer to a peer that is gone is answered with success",
    method(
        "    def get_transfer_engine_cls(self) -> type | None:\n"
        "        from sglang_platform.core.distributed.transfer_engine import TransferEngine\n\n"
        "        class Own(TransferEngine):\n"
        "            def batch_transfer_sync_write(\n"
        "                self, session: str, addresses: Any, peer_addresses: Any, lengths: Any\n"
        "            ) -> int:\n"
        "                return max(super().batch_transfer_sync_write(session, addresses, peer_addresses, lengths), 0)\n\n"
        "        return Own\n"
    ),
    levels="contract memory distributed",
)

# The device

device(
    "DeviceOfNone",
    "get_device(None), which asks for the type, raises",
    DEVICE,
    DEVICE.replace('torch.device("cpu")', 'torch.device(f"cpu:{int(device_id)}")'),
)
device(
    "UuidByHash",
    "the device's name is a hash of a text, which differs in every process",
    UUID,
    '        return f"reference-{hash(platform.node())}-{device_id}"\n',
)
device(
    "UuidOfTheBoot",
    "the device's name changes when the machine starts again",
    UUID,
    "        return f\"reference-{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}-{device_id}\"\n",
)
device(
    "UuidInAContainer",
    "the device's name is the same for all devices of a machine",
    UUID,
    '        return f"reference-{platform.node()}"\n',
)
device(
    "SeedOfZero",
    "a seed of 0 seeds nothing",
    of_device(
        "    @classmethod\n"
        "    def seed_everything(cls, seed: int | None = None) -> None:\n"
        "        if not seed:\n"
        "            return\n"
        "        super().seed_everything(seed)\n"
    ),
)
device(
    "SeedOfNone",
    "without a seed it seeds with the time",
    of_device(
        "    @classmethod\n"
        "    def seed_everything(cls, seed: int | None = None) -> None:\n"
        "        import time\n\n"
        "        super().seed_everything(int(time.time()) if seed is None else seed)\n"
    ),
)
device(
    "SeedsTorchOnly",
    "numpy keeps its state when everything is seeded",
    of_device(
        "    @classmethod\n"
        "    def seed_everything(cls, seed: int | None = None) -> None:\n"
        "        import random\n\n        import torch\n\n"
        "        if seed is not None:\n"
        "            random.seed(seed)\n"
        "            torch.manual_seed(seed)\n"
    ),
)
device(
    "OneInferenceMode",
    "inference_mode answers the same context each time: inside itself it ends the outer one",
    of_device(
        "    @classmethod\n"
        "    def inference_mode(cls) -> Any:\n"
        "        import torch\n\n"
        "        if '_mode' not in cls.__dict__:\n"
        "            cls._mode = torch.inference_mode(mode=True)\n"
        "        return cls._mode\n"
    ),
    at("device.py", "from typing import TYPE_CHECKING\n", "from typing import TYPE_CHECKING, Any\n"),
)
device(
    "InferenceModeIsNoGrad",
    "inference_mode is no_grad: tensors made in it count their versions",
    of_device(
        "    @classmethod\n"
        "    def inference_mode(cls) -> Any:\n"
        "        import torch\n\n"
        "        return torch.no_grad()\n"
    ),
    at("device.py", "from typing import TYPE_CHECKING\n", "from typing import TYPE_CHECKING, Any\n"),
)
device(
    "ReindexAfterAnError",
    "an error inside reindex_device_id leaves the restriction in the environment",
    of_device(
        "    @contextmanager\n"
        "    def reindex_device_id(self, device_id: int) -> Any:\n"
        '        old = os.environ.get("REFERENCE_VISIBLE_DEVICES")\n'
        '        os.environ["REFERENCE_VISIBLE_DEVICES"] = str(device_id)\n'
        "        yield 0\n"
        '        os.environ.pop("REFERENCE_VISIBLE_DEVICES")\n'
        "        if old is not None:\n"
        '            os.environ["REFERENCE_VISIBLE_DEVICES"] = old\n'
    ),
    at(
        "device.py",
        "from typing import TYPE_CHECKING\n",
        "from contextlib import contextmanager\nfrom typing import TYPE_CHECKING, Any\n",
    ),
)
device(
    "ReindexForgetsTheOperators",
    "reindex_device_id takes the operator's own restriction away when it ends",
    of_device(
        "    @contextmanager\n"
        "    def reindex_device_id(self, device_id: int) -> Any:\n"
        '        os.environ["REFERENCE_VISIBLE_DEVICES"] = str(device_id)\n'
        "        try:\n"
        "            yield 0\n"
        "        finally:\n"
        '            os.environ.pop("REFERENCE_VISIBLE_DEVICES", None)\n'
    ),
    at(
        "device.py",
        "from typing import TYPE_CHECKING\n",
        "from contextlib import contextmanager\nfrom typing import TYPE_CHECKING, Any\n",
    ),
)
device(
    "SetDeviceIsTheDefault",
    "set_device makes the device the one of new tensors",
    SET,
    SET + "        import torch\n\n        torch.set_default_device(device)\n",
)
device(
    "SetDeviceByText",
    "set_device takes the device's index, and has none for a device without one",
    SET,
    SET + "        assert device.index is not None or device.type != 'cpu'\n",
)
device(
    "FreeMemoryOfTheFirstCall",
    "free memory is what it was at the first call",
    FREE,
    "        if not hasattr(self, '_memory'):\n"
    "            self._memory = (_available(), self.get_device_total_memory())\n"
    "        return self._memory\n",
)
device(
    "FreeMemoryOfThisProcess",
    "free memory does not count what other processes hold",
    FREE,
    "        import resource\n\n"
    "        mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
    "        return self.get_device_total_memory() - mine, self.get_device_total_memory()\n",
)
device(
    "UsageIn32Bits",
    "memory in use is kept in 32 bits",
    USED,
    "        free, total = self.get_available_memory()\n        return float((total - free) & 0xFFFFFFFF)\n",
)
device(
    "UsageNeedsAnIndex",
    "get_current_memory_usage raises for a device without an index",
    USED,
    "        if device is not None and device.index is None:\n"
    "            raise ValueError('which device?')\n" + USED,
)
device(
    "PinsWithoutMeans",
    "is_pin_memory_available says yes where torch cannot pin",
    of_device(
        "    def is_pin_memory_available(self, device: torch.device | str | None = None) -> bool:\n"
        "        return True\n"
    ),
)
device(
    "PinsForEveryDevice",
    "is_pin_memory_available needs a device, and raises for the question without",
    of_device(
        "    def is_pin_memory_available(self, device: torch.device | str | None = None) -> bool:\n"
        "        return torch_type(device) == 'npu'\n"
    ),
    end(
        "device.py",
        "def torch_type(device: object) -> str:\n    return device.type  # type: ignore[attr-defined]",
    ),
)
device(
    "BackendOfAnotherDevice",
    "the backend of torch.distributed is one that this torch does not have",
    of_device('    def get_torch_distributed_backend_str(self) -> str:\n        return "xccl"\n'),
)
device(
    "CapabilityOfNumbers",
    "the device's generation is a pair of numbers",
    "    def get_device_capability(self, device_id: int = 0) -> DeviceCapability | None:\n        return None\n",
    "    def get_device_capability(self, device_id: int = 0) -> DeviceCapability | None:\n"
    "        return (9, 0)  # type: ignore[return-value]\n",
)
device(
    "EmptyCacheCollects",
    "empty_cache leaves the garbage collector switched on, and collecting at every allocation",
    of_device(
        "    def empty_cache(self) -> None:\n        import gc\n\n        gc.collect()\n        gc.enable()\n        gc.set_threshold(1, 1, 1)\n"
    ),
)
