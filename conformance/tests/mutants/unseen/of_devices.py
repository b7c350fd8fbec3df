"""Devices whose answers have another unit, type or meaning, or that leave something behind."""

from broken import Table

devices = Table("device", "contract", "device.py")

_TOTAL = '        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")\n'
_FREE = "        return _available(), self.get_device_total_memory()\n"
_USED = "        return float(total - free)\n"
_UUID = '        return f"reference-{platform.node()}-{device_id}"\n'
_NAME = '        return f"reference device on {platform.machine()}"\n'
_DEVICE = '        return torch.device("cpu")\n'
_SET = '        """There is one device."""\n'
_NONE = "        return None\n"
_TYPE = '    device_type = "cpu"\n'


def more(name: str, defect: str, body: str) -> None:
    """With `body` in the class of the device."""
    devices(name, defect, _TYPE, f"{_TYPE}\n{body}")


# Memory

devices("TotalInMiB", "the device's memory is stated in MiB", _TOTAL, _TOTAL.rstrip() + " >> 20\n")
devices("TotalInKiB", "the device's memory is stated in KiB", _TOTAL, _TOTAL.rstrip() + " >> 10\n")
devices("TotalIsFloat", "the device's memory is a float", _TOTAL, _TOTAL.replace("return ", "return 1.0 * "))
devices("TotalFallsWithUse", "the total is what is free now", _TOTAL, _TOTAL.replace("PHYS", "AVPHYS"))
devices("FreeAndTotalSwapped", "(total, free)", _FREE,
        "        return self.get_device_total_memory(), _available()\n")  # fmt: skip
devices(
    "FreeInGiB",
    "free memory in GiB, the total in bytes",
    _FREE,
    _FREE.replace("_available()", "_available() / 2**30"),
)
devices(
    "FreeIsOneNumber", "the free memory alone", _FREE, _FREE.replace(", self.get_device_total_memory()", "")
)
devices("UsageInMiB", "the peak in MiB", _USED, "        return float(total - free) / 2**20\n")
devices("UsageIsFree", "the memory that is free", _USED, "        return float(free)\n")
devices(
    "UsageIsZero", "the peak is always 0: the host takes all memory for free", _USED, "        return 0.0\n"
)
devices("UsageNeedsDevice", "the peak of the current device (None) is an error", _USED,
        "        if device is None:\n            raise ValueError('which device?')\n" + _USED)  # fmt: skip

# Identity

devices(
    "UuidOfProcess",
    "the uuid has the process id in it",
    _UUID,
    _UUID.replace("{device_id}", "{device_id}-{os.getpid()}"),
)
devices(
    "UuidHashed",
    "the uuid is Python's hash, other in each process",
    _UUID,
    "        return str(hash(platform.node()))\n",
)
devices(
    "UuidOfAllDevices", "all devices have one uuid", _UUID, '        return f"reference-{platform.node()}"\n'
)
devices(
    "UuidOfAllMachines",
    "the uuid is the same on every machine",
    _UUID,
    '        return f"device-{device_id}"\n',
)
devices("UuidIsNumber", "the uuid is a number", _UUID, "        return device_id\n")
devices("UuidOfMoment", "the uuid is new every second", _UUID,
        "        import time\n\n        return f'{device_id}-{int(time.time() * 50)}'\n")  # fmt: skip
devices("NameIsNone", "the device has no name", _NAME, "        return None\n")
devices("NameIsEmpty", "the name is empty", _NAME, "        return ''\n")
devices("NameOfClass", "device_name has a space and a slash in it", '    device_name = "reference"\n',
        '    device_name = "reference / cpu"\n')  # fmt: skip
devices("CapabilityIsTuple", "the generation is a plain tuple", _NONE, "        return (8, 0)\n")
devices("CapabilityIsText", "the generation is text", _NONE, "        return '8.0'\n")
devices("CapabilityRaises", "the generation is an error", _NONE, "        raise RuntimeError('no driver')\n")
devices(
    "CapabilityOfTwoDigits",
    "minor 10, which has no integer form",
    _NONE,
    "        return DeviceCapability(9, 10)\n",
)
more("IsCudaAlike", "it says that it is CUDA-alike, so the host launches CUDA kernels",
     "    def is_cuda_alike(self) -> bool:\n        return True\n")  # fmt: skip
more("IsNotOutOfTree", "it says that it is not out of tree",
     "    def is_out_of_tree(self) -> bool:\n        return False\n")  # fmt: skip
more(
    "IsCpuToo",
    "it says that it is the host's CPU platform",
    "    def is_cpu(self) -> bool:\n        return True\n",
)
more("ArchIsText", "the processor family is text",
     "    @classmethod\n    def get_cpu_architecture(cls):\n        return 'x86'\n")  # fmt: skip
devices("EnumIsText", "_enum is text", "    _enum = PlatformEnum.OOT\n", '    _enum = "OOT"\n')
devices(
    "EnumUnspecified",
    "_enum is left unspecified",
    "    _enum = PlatformEnum.OOT\n",
    "    _enum = PlatformEnum.UNSPECIFIED\n",
)
devices("TypeUnknown", "device_type is a name that no torch backend has", _TYPE, '    device_type = "gpu"\n')
devices("TypeOfOther", "device_type is meta, get_device is on the CPU", _TYPE, '    device_type = "meta"\n')

# What it does

devices("DeviceIsText", "get_device answers with text", _DEVICE, '        return "cpu"\n')
devices("DeviceNeedsIndex", "get_device(None), which the host asks, is an error", _DEVICE,
        "        assert device_id + 0 >= 0\n" + _DEVICE)  # fmt: skip
devices(
    "DeviceOfMeta",
    "get_device answers with another type than device_type",
    _DEVICE,
    "        return torch.device('meta')\n",
)
devices("SetChangesDefault", "set_device makes the device torch's default", _SET,
        "        import torch\n\n        torch.set_default_device(device)\n")  # fmt: skip
devices("SetNeedsNumber", "set_device takes a number only", _SET, "        assert isinstance(device, int)\n")
more(
    "CacheRaises",
    "empty_cache raises",
    "    def empty_cache(self) -> None:\n        raise RuntimeError('no cache')\n",
)
more("SynchronizeRaises", "synchronize raises where nothing was queued",
     "    def synchronize(self) -> None:\n        raise RuntimeError('nothing is queued')\n")  # fmt: skip
more("SynchronizeSlow", "synchronize waits 2 seconds",
     "    def synchronize(self) -> None:\n        import time\n\n        time.sleep(2)\n")  # fmt: skip
more("PinIsPromised", "page-locked memory is promised, and torch has none without an accelerator",
     "    def is_pin_memory_available(self, device=None) -> bool:\n        return True\n")  # fmt: skip
more(
    "PinIsNone",
    "is_pin_memory_available answers None",
    "    def is_pin_memory_available(self, device=None):\n        return None\n",
)
more("BackendOfNobody", "a distributed backend that torch does not have",
     "    def get_torch_distributed_backend_str(self) -> str:\n        return 'rccl'\n")  # fmt: skip
more(
    "BackendIsNccl",
    "nccl for tensors on the CPU",
    "    def get_torch_distributed_backend_str(self) -> str:\n        return 'nccl'\n",
)
more(
    "BackendIsNone",
    "no distributed backend",
    "    def get_torch_distributed_backend_str(self):\n        return None\n",
)
devices(
    "ProfilerOfOther",
    "the profiler's activity is another than its name",
    '        return "CPU"\n',
    '        return "CUDA"\n',
)
devices(
    "ProfilerUnknown", "torch has no such activity", '        return "CPU"\n', '        return "REFERENCE"\n'
)
more("ReindexStays", "reindex_device_id leaves the environment changed", """\
    @__import__("contextlib").contextmanager
    def reindex_device_id(self, device_id):
        os.environ["REFERENCE_VISIBLE_DEVICES"] = str(device_id)
        yield 0
""")  # fmt: skip
more("ReindexStaysAfterError", "reindex_device_id leaves the environment changed where its block raises", """\
    @__import__("contextlib").contextmanager
    def reindex_device_id(self, device_id):
        os.environ["REFERENCE_VISIBLE_DEVICES"] = str(device_id)
        yield 0
        del os.environ["REFERENCE_VISIBLE_DEVICES"]
""")  # fmt: skip
more("ReindexForgetsOld", "reindex_device_id removes what the operator had set before", """\
    @__import__("contextlib").contextmanager
    def reindex_device_id(self, device_id):
        os.environ["CUDA_VISIBLE_DEVICES"] = str(device_id)
        try:
            yield 0
        finally:
            os.environ.pop("CUDA_VISIBLE_DEVICES")
""")  # fmt: skip
more("ReindexYieldsText", "reindex_device_id yields text", """\
    @__import__("contextlib").contextmanager
    def reindex_device_id(self, device_id):
        yield str(device_id)
""")  # fmt: skip
more("SeedOfPythonOnly", "seed_everything does not seed torch", """\
    @classmethod
    def seed_everything(cls, seed=None):
        import random

        random.seed(seed)
""")  # fmt: skip
more("SeedNoneSeeds", "seed_everything(None) seeds with 0", """\
    @classmethod
    def seed_everything(cls, seed=None):
        super().seed_everything(seed or 0)
""")  # fmt: skip
more("SeedDeterministic", "seed_everything turns torch's deterministic algorithms on for good", """\
    @classmethod
    def seed_everything(cls, seed=None):
        import torch

        super().seed_everything(seed)
        torch.use_deterministic_algorithms(True)
""")  # fmt: skip
more(
    "InferenceModeIsNone",
    "inference_mode answers None",
    "    @classmethod\n    def inference_mode(cls):\n        return None\n",
)
more("InferenceModeTrains", "inference_mode leaves gradients on", """\
    @classmethod
    def inference_mode(cls):
        import torch

        return torch.enable_grad()
""")  # fmt: skip
more("QuantizationAnswers", "verify_quantization answers False where it should raise, for methods that are not supported", """\
    def verify_quantization(self, quant):
        return False
""")  # fmt: skip
more("QuantizationKeyError", "verify_quantization raises KeyError", """\
    def verify_quantization(self, quant):
        {}[quant]
""")  # fmt: skip
