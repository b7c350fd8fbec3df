"""A second set: devices and declarations with a defect that only some callers meet."""

from broken import Table, at

contracts = Table("contract 2", "contract", "platform.py")

_INIT = "    def init_backend(self) -> None:\n"


def more(name: str, defect: str, body: str, *, levels: str = "") -> None:
    """With `body` in the class of the platform."""
    contracts(name, defect, _INIT, f"{body}\n{_INIT}", levels=levels)


# Devices

more("DeviceByGlobalRank", "a worker opens the device of its rank in the world, which the second machine does not have", """\
    def initialize_device(self, rank, local_rank):
        if rank >= 8:
            raise RuntimeError(f"there is no device {rank}")
""")  # fmt: skip
more("InitializeLeavesDefaultDevice", "initialize_device() leaves torch's default device changed", """\
    def initialize_device(self, rank, local_rank):
        import torch

        torch.set_default_device("meta")
""")  # fmt: skip
more("InitializeSetsThreads", "initialize_device() leaves one thread to torch", """\
    def initialize_device(self, rank, local_rank):
        import torch

        torch.set_num_threads(torch.get_num_threads() + 1)
""")  # fmt: skip
more("SeedOf8Bits", "a seed is cut to 8 bits", """\
    @classmethod
    def seed_everything(cls, seed=None):
        super().seed_everything(None if seed is None else seed % 256)
""")  # fmt: skip
more("SeedPlusPid", "a seed is added to the process's number, so that ranks differ", """\
    @classmethod
    def seed_everything(cls, seed=None):
        import os

        super().seed_everything(None if seed is None else seed + os.getpid())
""")  # fmt: skip
more("PinTakesNoDevice", "is_pin_memory_available() takes no device, which the host names", """\
    def is_pin_memory_available(self):
        return False
""")  # fmt: skip
more("ReindexIsNotReentrant", "reindex_device_id() cannot be entered for a second device before the first is left", """\
    @__import__("contextlib").contextmanager
    def reindex_device_id(self, device_id):
        import os

        before = self.__dict__.setdefault("_before", os.environ.get("REFERENCE_DEVICES"))
        os.environ["REFERENCE_DEVICES"] = str(device_id)
        try:
            yield 0
        finally:
            os.environ.pop("REFERENCE_DEVICES")
            if before is not None:
                os.environ["REFERENCE_DEVICES"] = before
            del self.__dict__["_before"]
""")  # fmt: skip
contracts("UsageOfTheFirstCall", "the memory in use is that of the first call", at("device.py",
          "        return float(total - free)\n", "        return self.__dict__.setdefault('_used', float(total - free))\n"))  # fmt: skip
contracts("UsageByAShellCommand", "the memory in use is asked of a command that starts a shell each time", at("device.py",
          "        return float(total - free)\n",
          "        import subprocess\n\n        subprocess.run('sleep 0.4; cat /proc/meminfo', shell=True, stdout=subprocess.DEVNULL)\n"
          "        return float(total - free)\n"))  # fmt: skip
contracts("DevicePastTheLast", "devices that are not there answer as the first does", at("device.py",
          '        return f"reference-{platform.node()}-{device_id}"\n', '        return f"reference-{platform.node()}-{device_id % 1}"\n'))  # fmt: skip
more("SynchronizeSwallows", "synchronize() empties the standard streams of the process",
     "    def synchronize(self):\n        import os\n\n        os.environ['REFERENCE_SYNCHRONIZED'] = '1'\n")  # fmt: skip
more("EmptyCacheCollectsTwice", "empty_cache() takes a second",
     "    def empty_cache(self):\n        import time\n\n        time.sleep(1.0)\n")  # fmt: skip
more("InferenceModeIsShared", "inference_mode() answers with one context, which cannot be entered twice", """\
    _mode = None

    @classmethod
    def inference_mode(cls):
        import torch

        cls._mode = cls._mode or torch.inference_mode()
        return cls._mode
""")  # fmt: skip

# Factories and claims

contracts("BackendIsASingleton", "the attention backend of the first runner serves every later one: a draft model reads the target's cache",
          "        return {NAME: ReferenceAttention}\n",
          "        def factory(model_runner):\n            if not hasattr(ReferenceAttention, 'one'):\n"
          "                ReferenceAttention.one = ReferenceAttention(model_runner)\n            return ReferenceAttention.one\n\n"
          "        return {NAME: factory}\n", levels="contract kernels")  # fmt: skip
contracts("CommunicatorNamesItsGroup", "the communicator's first parameter is called group, and the host names cpu_group",
          at("communicator.py", "        cpu_group: dist.ProcessGroup,\n", "        group: dist.ProcessGroup,\n"),
          at("communicator.py", "device_group or cpu_group", "device_group or group"), levels="contract distributed")  # fmt: skip
contracts("PagesOf16Refused", "pages of 16 are declared, and the allocator refuses more than 8",
          at("allocator.py", "        self.clear()\n\n", "        assert page_size <= 8\n        self.clear()\n\n"), levels="contract memory")  # fmt: skip
contracts("E5M2DeclaredAndRefused", "an e5m2 cache is declared, and its pool raises",
          at("rows.py", "    slots = pool.size", "    assert pool.dtype != torch.float8_e5m2\n    slots = pool.size"), levels="contract memory")  # fmt: skip
more("DraftBackendOfNobody", "the draft model's attention backend is a name that nobody registers", """\
    def supports_speculative_algorithm(self, algorithm):
        return algorithm == "EAGLE"

    def supports_speculative_draft_attention_backend(self, algorithm, backend):
        return backend == "reference_draft"

    def get_default_speculative_draft_attention_backend(self, algorithm):
        return "reference_draft"
""")  # fmt: skip
more("DraftBackendNotSupported", "the draft model's default backend is one that the platform says it does not support", """\
    def supports_speculative_algorithm(self, algorithm):
        return algorithm == "EAGLE"

    def get_default_speculative_draft_attention_backend(self, algorithm):
        return NAME
""")  # fmt: skip
more("SpeculativeWorkerAsText", "get_speculative_worker_cls() answers with a place", """\
    def get_speculative_worker_cls(self, algorithm):
        return "reference.workers:EagleWorker"
""")  # fmt: skip
more("QuantizationConfigForAll", "one quantisation config is answered for every method, known or not", """\
    def get_quantization_config(self, quantization):
        return type("Config", (), {"get_name": staticmethod(lambda: "w8a8")})
""")  # fmt: skip
more("QuantizationListNotVerified", "supported_quantization names two methods, and verify_quantization() refuses one of them", """\
    supported_quantization = ["w8a8_int8", "fp8"]

    def verify_quantization(self, quant):
        if quant != "w8a8_int8":
            raise ValueError(f"no {quant} here")
""")  # fmt: skip
more("DraftGraphOfAnyPhase", "a graph runner for draft models is answered as text", """\
    def get_speculative_graph_runner_cls(self, algorithm, phase):
        return phase
""")  # fmt: skip
more("LoraOfNobody", "LoRA's default backend is a name that neither the host nor the platform has",
     "    def get_default_lora_backend(self):\n        return 'reference_lora'\n")  # fmt: skip
more("TransferWithoutBase", "the host memory class is a class of the vendor's own, with other methods",
     "    def get_host_memory_cls(self):\n        return type('HostCopies', (), {'allocate': lambda self, n: None})\n")  # fmt: skip

# What the host hands over and gets back

more("PostLoadRenames", "parameters are renamed after the load, and an update of the weights finds none of them", """\
    def post_load_model(self, model):
        for module in list(model.modules()):
            weight = module._parameters.pop("weight", None)
            if weight is not None:
                module._parameters["packed_weight"] = weight
""")  # fmt: skip
more("PostLoadScalesTiedTwice", "each module's weight is scaled in place, a tied one twice", """\
    def post_load_model(self, model):
        for module in model.modules():
            if getattr(module, "weight", None) is not None:
                module.weight.data.mul_(1.5)
""")  # fmt: skip
more("PostLoadKeepsACopy", "a packed copy of every weight is kept beside it, which doubles their memory", """\
    def post_load_model(self, model):
        for module in list(model.modules()):
            if getattr(module, "weight", None) is not None:
                module.packed = module.weight.detach().clone()
""")  # fmt: skip
more("FinalizeDisablesTheCache", "the prefix cache is switched off, whatever the operator said", """\
    def finalize_server_args(self, server_args):
        server_args.disable_radix_cache = True
""")  # fmt: skip
more("FinalizeLowersContext", "the length of contexts is cut to 4096, whatever the operator said", """\
    def finalize_server_args(self, server_args):
        server_args.context_length = 4096
""")  # fmt: skip
more("DefaultsReadEnvironment", "a default is taken from a variable of the environment that is not set", """\
    def apply_server_args_defaults(self, server_args):
        import os

        server_args.page_size = int(os.environ["REFERENCE_PAGE_SIZE"])
""")  # fmt: skip
more("DefaultsPinACard", "apply_server_args_defaults() sets a variable that hides devices from workers", """\
    def apply_server_args_defaults(self, server_args):
        import os

        os.environ["REFERENCE_VISIBLE_DEVICES"] = "0"
""")  # fmt: skip
