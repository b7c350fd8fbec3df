"""Platforms whose factories, declarations or lifecycle calls answer with something else, or leave something behind."""

from broken import Table

contracts = Table("contract", "contract", "platform.py")

_INIT = "        ops.register(NAME)"
_FEATURES = "    attention_features = tuple(word for word in FEATURES if word not in _LEFT_OUT)\n"
_POOL = "        return getattr(importlib.import_module(module, __package__), name)  # type: ignore[no-any-return]\n"


def more(name: str, defect: str, body: str, *words: object, levels: str = "") -> None:
    """With `body` in the class of the platform."""
    contracts(name, defect, _FEATURES, f"{_FEATURES}\n{body}", *words, levels=levels)  # type: ignore[arg-type]


def answers(name: str, defect: str, call: str, answer: str, levels: str = "") -> None:
    """With a method `call` that returns `answer`."""
    more(name, defect, f"    def {call}:\n        return {answer}\n", levels=levels)


def answers_not(name: str, defect: str, old: str, new: str) -> None:
    contracts(name, defect, f"        return {old}\n", f"        return {new}\n")


# Declarations

_CAPS = "    capabilities = PlatformCapabilities(graph_capture=True, piecewise_graph=True, fp8=True)\n"
contracts("CapabilitiesRaise", "capabilities are a property that raises", _CAPS,
          "    @property\n    def capabilities(self):\n        raise RuntimeError('no driver')\n\n")  # fmt: skip
contracts("CapabilitiesChange", "capabilities are other at every second question", _CAPS,
          "    _asked = 0\n\n    @property\n    def capabilities(self):\n        type(self)._asked += 1\n"
          "        return PlatformCapabilities(graph_capture=type(self)._asked % 2 == 0, piecewise_graph=True, fp8=True)\n\n")  # fmt: skip
contracts(
    "CapabilitiesAreADict",
    "capabilities are a dict",
    _CAPS,
    "    capabilities = {'graph_capture': True, 'piecewise_graph': True, 'fp8': True}\n",
)
contracts("CapabilitiesAreAMethod", "capabilities are a method", _CAPS,
          "    def capabilities(self):\n        return PlatformCapabilities(graph_capture=True, piecewise_graph=True, fp8=True)\n\n")  # fmt: skip
contracts("TritonPromised", "Triton kernels are promised on a device that has none", _CAPS,
          _CAPS.replace("fp8=True", "fp8=True, supports_triton=True"))  # fmt: skip
contracts("PiecewisePromised", "piecewise graphs are promised without a backend",
          "        return ReferencePiecewiseBackend\n", "        return None\n")  # fmt: skip
contracts("HicachePromised", "the host's kernels of the hierarchical cache are promised on a CPU", _CAPS,
          _CAPS.replace("fp8=True", "fp8=True, hicache_device_kernels=True"))  # fmt: skip
contracts(
    "PyncclPromised",
    "PyNccl is promised on a CPU",
    _CAPS,
    _CAPS.replace("fp8=True", "fp8=True, supports_pynccl=True"),
)
contracts("PageOfZero", "a page size of 0 is declared", "(1, 4, 16)", "(0, 1, 4, 16)")
contracts("PagesAreText", "page sizes are text", "(1, 4, 16)", '("1", "16")')
contracts("PageIsANumber", "page sizes are one number", "(1, 4, 16)", "16")
contracts(
    "DtypeOfOtherName",
    "a KV dtype goes by a name of its vendor's",
    '("float32", "bfloat16",',
    '("float32", "bf16",',
)
contracts("KindUnknown", "a kind of pool that nobody knows is declared", "tuple(KINDS)", '(*KINDS, "mamba")')
contracts(
    "FeatureUnknown",
    "a feature that nobody knows is declared",
    _FEATURES,
    _FEATURES.replace("= tuple(word", '= ("mixed_batches", *(word').replace("_LEFT_OUT)", "_LEFT_OUT))"),
)
contracts(
    "Fp8WithoutCapability",
    "8-bit caches are declared without the capability",
    _CAPS,
    _CAPS.replace(", fp8=True", ""),
)
contracts("KernelsOfNobody", "a kernel list that does not exist is declared", _FEATURES,
          _FEATURES + '    kernels = ("sglang_platform_reference.kernels:ALL",)\n', levels="contract kernels")  # fmt: skip
contracts("ProfileOfNobody", "a profile that does not exist is claimed", _FEATURES,
          _FEATURES + '    conformance_profiles = ("core", "fastest")\n')  # fmt: skip
contracts(
    "QuantizationIsText",
    "supported_quantization is text",
    _FEATURES,
    _FEATURES + '    supported_quantization = "fp8"\n',
)

# Factories

answers_not("PoolIsAnInstance", "get_kv_pool_cls answers with a function", _POOL.strip().removeprefix("return ").split("  #")[0] + "  # type: ignore[no-any-return]",
            "lambda **keywords: None")  # fmt: skip
contracts("PoolOfOtherKind", "get_kv_pool_cls answers with the MHA pool for mla", "FIXTURES[kv_pool_kind(kind)]",
          "FIXTURES['mha' if kind == 'mla' else kv_pool_kind(kind)]")  # fmt: skip
contracts("PoolOfAnyKind", "get_kv_pool_cls answers with the MHA pool for a kind that nobody knows",
          "FIXTURES[kv_pool_kind(kind)]", "FIXTURES[kind if kind in KINDS else 'mha']")  # fmt: skip
contracts("PoolAnew", "every question is answered with a new class, which no pickle finds", _POOL,
          "        cls = getattr(importlib.import_module(module, __package__), name)\n        return type(name, (cls,), {})\n")  # fmt: skip
contracts("PoolOnce", "the second question is answered with None", _POOL,
          "        if kind in self.__dict__.setdefault('_asked', set()):\n            return None\n"
          "        self._asked.add(kind)\n" + _POOL)  # fmt: skip
answers_not("AllocatorIsText", "get_paged_allocator_cls answers with a name", "ReferencePagedAllocator",
            "'reference.allocator.ReferencePagedAllocator'")  # fmt: skip
answers_not("RunnerIsPartial", "get_graph_runner_cls answers with a partial", "ReferenceGraphRunner",
            "__import__('functools').partial(ReferenceGraphRunner)")  # fmt: skip
answers_not("CommunicatorIsAModule", "get_communicator_class answers with a module", "ReferenceCommunicator",
            "__import__('sys').modules[ReferenceCommunicator.__module__]")  # fmt: skip
answers_not(
    "BackendsAreAList",
    "get_attention_backends answers with a list",
    "{NAME: ReferenceAttention}",
    "[ReferenceAttention]",
)
answers_not(
    "BackendIsText",
    "an attention backend is a name",
    "{NAME: ReferenceAttention}",
    "{NAME: 'ReferenceAttention'}",
)
answers_not("BackendTakesNothing", "an attention backend's factory takes no runner", "{NAME: ReferenceAttention}",
            "{NAME: lambda: ReferenceAttention(None)}")  # fmt: skip
contracts("BackendMisspelt", "the default attention backend is none of its own, and none of the host's",
          "    def get_default_attention_backend(self) -> str:\n        return NAME\n",
          "    def get_default_attention_backend(self) -> str:\n        return 'referense'\n")  # fmt: skip
contracts("KeyOfOthers", "the dispatch key is another than that of the registered ops",
          "    def get_dispatch_key_name(self) -> str:\n        return NAME\n",
          "    def get_dispatch_key_name(self) -> str:\n        return 'ref'\n", levels="contract kernels")  # fmt: skip
contracts("KeyIsNone", "the dispatch key is None",
          "    def get_dispatch_key_name(self) -> str:\n        return NAME\n",
          "    def get_dispatch_key_name(self):\n        return None\n")  # fmt: skip
answers_not("CompileIsNone", "get_compile_backend answers None", '"eager"', "None")
answers_not("CompileOfNobody", "a compile backend that torch does not have", '"eager"', '"tensorcompiler"')
contracts("CompileOfMode", "get_compile_backend fails for a hint of the host's",
          '        return "eager"\n', '        return {None: "eager", "default": "eager"}[mode]\n')  # fmt: skip
answers(
    "CoordinatorIsText",
    "the device of a group is text",
    "get_group_coordinator_device(self, local_rank)",
    '"cpu"',
)
answers("CoordinatorIsCuda", "the device of a group is another device's", "get_group_coordinator_device(self, local_rank)",
        "__import__('torch').device('cuda', local_rank)")  # fmt: skip
answers(
    "QuantizationInstance",
    "get_quantization_config answers with an instance",
    "get_quantization_config(self, quantization)",
    "object()",
)
answers(
    "LoraOfTriton",
    "LoRA's default backend is in Triton, which the device has not",
    "get_default_lora_backend(self)",
    '"triton"',
)
answers("LoraIsClass", "LoRA's default backend is a class", "get_default_lora_backend(self)", "dict")
answers("StubsAreAList", "stub_modules answers with a list", "stub_modules(self)", '["triton"]')
answers("StubsOfText", "a stub is text", "stub_modules(self)", '{"vendor_kernels": "empty"}')
answers("StubHidesTorch", "a stub hides a part of torch that is there", "stub_modules(self)",
        '{"torch.cuda": None, "torch": None}')  # fmt: skip
answers("SpeculativeIsText", "supports_speculative_algorithm answers with text, which is true",
        "supports_speculative_algorithm(self, algorithm)", '"no"')  # fmt: skip
answers("SpeculativeWithoutDraft", "EAGLE is supported, and no attention backend for its draft model",
        "supports_speculative_algorithm(self, algorithm)", 'algorithm == "EAGLE"')  # fmt: skip
answers(
    "CacheLocsNoFunction",
    "get_speculative_cache_locs_fn answers with a number",
    "get_speculative_cache_locs_fn(self)",
    "1",
)
answers(
    "MambaIsText",
    "support_mamba_cache_extra_buffer answers with text",
    "support_mamba_cache_extra_buffer(self)",
    '"no"',
)
answers(
    "HostMemoryInstance",
    "get_host_memory_cls answers with an instance",
    "get_host_memory_cls(self)",
    "object()",
)
answers("SaverIsText", "get_memory_saver_cls answers with text", "get_memory_saver_cls(self)", '"torch"')
answers(
    "EngineOfOtherBase",
    "get_transfer_engine_cls answers with a class that is none",
    "get_transfer_engine_cls(self)",
    "dict",
)
answers_not(
    "FullGraphOfOtherBase",
    "get_full_graph_backend_cls answers with a class that is none",
    "ReferenceFullGraphBackend",
    "dict",
)

# Grammars and states

_MASK = """\
    def get_token_bitmask_fn(self):
        import torch

        def apply(logits, bitmask):
            bits = (bitmask[:, :, None] >> torch.arange(32)) & 1
            allowed = bits.flatten(1)[:, : logits.shape[1]].bool()
            ANSWER

        return apply
"""
more("MaskReturns", "a grammar's mask is applied to a copy that is returned",
     _MASK.replace("ANSWER", "return logits.masked_fill(~allowed, float('-inf'))"), levels="contract kernels")  # fmt: skip
more("MaskInverted", "a grammar's mask forbids what is allowed",
     _MASK.replace("ANSWER", "logits.masked_fill_(allowed, float('-inf'))"), levels="contract kernels")  # fmt: skip
more("MaskOfWholeWords", "the tokens behind the last whole word of a mask are not masked",
     _MASK.replace("ANSWER", "n = logits.shape[1] // 32 * 32\n"
                   "            logits[:, :n].masked_fill_(~allowed[:, :n], float('-inf'))"), levels="contract kernels")  # fmt: skip
more("MaskIsFinite", "forbidden tokens are set to -1000", _MASK.replace("ANSWER", "logits.masked_fill_(~allowed, -1000)"),
     levels="contract kernels")  # fmt: skip
_STATES = """\
    def get_state_kernels(self):
        from sglang_platform.core.portable.torch import state_kernels as own

        def KERNEL

        return {"NAME": wrong}
"""
more("StateUnknown", "a state kernel that nobody asks for is named", "    def get_state_kernels(self):\n        return {'gated_delta': print}\n",
     levels="contract kernels")  # fmt: skip
more("StateNormIgnoresGateOrder", "gate_first is not looked at", _STATES.replace("NAME", "gated_rms_norm").replace(
    "KERNEL", "wrong(*args, gate_first=False, **more):\n            return own.gated_rms_norm(*args, gate_first=False, **more)"),
     levels="contract kernels")  # fmt: skip
more("StateConvolutionForgets", "a short convolution does not look at its state", _STATES.replace("NAME", "short_convolution").replace(
    "KERNEL", "wrong(x, weight, bias, starts, slots, resumes, states, *, silu):\n"
    "            return own.short_convolution(x, weight, bias, starts, slots, resumes, states.clone() * 0, silu=silu)"),
     levels="contract kernels")  # fmt: skip
more("StateDeltaScaleTwice", "the gated delta rule scales its output twice", _STATES.replace("NAME", "gated_delta_rule").replace(
    "KERNEL", "wrong(*args, scale, **more):\n            y, before = own.gated_delta_rule(*args, scale=scale, **more)\n"
    "            return y * scale, before"), levels="contract kernels")  # fmt: skip

# Lifecycle

_LEFT = (
    ("DefaultDtype", "torch's default dtype", "torch.set_default_dtype(torch.bfloat16)"),
    ("DefaultDevice", "torch's default device", "torch.set_default_device('meta')"),
    ("Threads", "torch's number of threads", "torch.set_num_threads(1 + torch.get_num_threads())"),
    ("Gradients", "gradients switched off", "torch.set_grad_enabled(False)"),
    ("Seed", "a seed of torch's random numbers", "torch.manual_seed(0)"),
    ("Folder", "another working directory", "__import__('os').chdir('/')"),
    ("Signals", "a handler of SIGTERM", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
    ("RootLogger", "the root logger's level", "import logging; logging.getLogger().setLevel(logging.DEBUG)"),
    ("Collector", "the garbage collector switched off", "__import__('gc').disable()"),
    (
        "Matmul",
        "torch's matrix multiplication of float32 in lower precision",
        "torch.set_float32_matmul_precision('medium')",
    ),
)
for _name, _what, _code in _LEFT:
    contracts(f"InitLeaves{_name}", f"init_backend leaves {_what} changed", _INIT,
              f"{_INIT}\n        import torch\n\n        {_code}\n")  # fmt: skip
contracts("InitTwiceFails", "init_backend fails in a worker where it ran before (a draft model's)", _INIT,
          f"{_INIT}\n        assert not hasattr(ops, 'done')\n        ops.done = True\n")  # fmt: skip
contracts("InitRaises", "init_backend raises", _INIT, "        raise RuntimeError('no driver')\n")
contracts(
    "InitSlow",
    "init_backend takes a minute",
    _INIT,
    f"{_INIT}\n        import time\n\n        time.sleep(60)\n",
)
contracts(
    "InitPrints",
    "init_backend prints to standard output",
    _INIT,
    f"{_INIT}\n        print('reference 1.0 loaded')\n",
)
contracts("InitForks", "init_backend leaves a child process", _INIT,
          f"{_INIT}\n        import subprocess\n\n        subprocess.Popen(['sleep', '60'])\n")  # fmt: skip
more("FinalizeAddsUp", "finalize_server_args takes a share of memory each time that it is called",
     "    def finalize_server_args(self, server_args):\n        server_args.mem_fraction_static = "
     "(getattr(server_args, 'mem_fraction_static', None) or 0.9) * 0.9\n")  # fmt: skip
more("FinalizeReturns", "finalize_server_args returns a changed copy, and leaves the one given",
     "    def finalize_server_args(self, server_args):\n        import copy\n\n        return copy.copy(server_args)\n")  # fmt: skip
more("FinalizeRaises", "finalize_server_args raises for arguments of an older host",
     "    def finalize_server_args(self, server_args):\n        server_args.no_such_argument += 1\n")  # fmt: skip
more("FinalizeOverrides", "finalize_server_args replaces the attention backend that the operator named",
     "    def finalize_server_args(self, server_args):\n        server_args.attention_backend = 'triton'\n")  # fmt: skip
more("DefaultsOverride", "apply_server_args_defaults replaces the page size that the operator named",
     "    def apply_server_args_defaults(self, server_args):\n        server_args.page_size = 64\n")  # fmt: skip
more("DefaultsMisspelt", "apply_server_args_defaults sets an argument that the host does not have",
     "    def apply_server_args_defaults(self, server_args):\n        server_args.pagesize = 16\n")  # fmt: skip
more("DefaultsTouchDevice", "apply_server_args_defaults opens a file in the working directory",
     "    def apply_server_args_defaults(self, server_args):\n        open('platform.lock', 'w').close()\n")  # fmt: skip
more("PostLoadCasts", "post_load_model casts all weights to float16",
     "    def post_load_model(self, model):\n        model.half()\n")  # fmt: skip
more("PostLoadReturns", "post_load_model returns another model, and the one given stays",
     "    def post_load_model(self, model):\n        import copy\n\n        return copy.deepcopy(model)\n")  # fmt: skip
more("PostLoadRaises", "post_load_model raises for a model without model.layers",
     "    def post_load_model(self, model):\n        model.model.layers[0]\n")  # fmt: skip
more("PostLoadTrains", "post_load_model puts the model into training mode, with gradients",
     "    def post_load_model(self, model):\n        model.train().requires_grad_(True)\n")  # fmt: skip
more("PostLoadTwice", "post_load_model transposes weights, again where it is called again",
     "    def post_load_model(self, model):\n        for weight in model.parameters():\n"
     "            weight.data = weight.data.t().contiguous() if weight.dim() == 2 else weight.data\n")  # fmt: skip
more("ConstructorSlow", "making the platform takes 20 seconds",
     "    def __init__(self):\n        import time\n\n        time.sleep(20)\n        super().__init__()\n")  # fmt: skip
more("ConstructorOnce", "the platform can be made once in a process",
     "    def __init__(self):\n        assert not ReferencePlatform.__dict__.get('_made')\n"
     "        ReferencePlatform._made = True\n        super().__init__()\n")  # fmt: skip
