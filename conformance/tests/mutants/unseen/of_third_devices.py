"""The device's conduct, third set: what differs by process, by call and by question, and what stays set."""

from __future__ import annotations

from broken import Edit, Table, at, end

device = Table("device 3", "contract", "device.py")

DEVICE = '    def get_device(self, device_id: int = 0) -> torch.device:\n        import torch\n\n        return torch.device("cpu")\n'
SET = '        """There is one device."""\n'
UUID = '        return f"reference-{platform.node()}-{device_id}"\n'
FREE = "        return _available(), self.get_device_total_memory()\n"
USED = "        free, total = self.get_available_memory()\n        return float(total - free)\n"
BEFORE_PROFILER = "    def get_torch_profiler_activity_str(self) -> str:\n"


def of_device(text: str) -> Edit:
    """The device with one more method."""
    return at("device.py", BEFORE_PROFILER, f"{text}\n{BEFORE_PROFILER}")


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
