"""Mistakes in platforms, pools, allocators, attention and graph runners on SGLang's classes, releases 0.5.11 to 0.5.23:
names that moved on, signatures and results that changed, what was left out. All of one plugin are planted at once."""

from __future__ import annotations

from defect import Defect, Place
from installed_plugin import Edit

__all__ = ["DEFECTS"]

_PLATFORM = "sglang_aurora/platform.py"
_DEVICE = "sglang_aurora/device.py"
_POOLS = "sglang_aurora/pools.py"
_ALLOCATOR = "sglang_aurora/allocator.py"
_ATTENTION = "sglang_aurora/attention.py"
_W4 = "sglang_aurora/quantization.py"
_HOOKS = "sglang_aurora/plugin.py"
_BASALT = "src/basalt_sglang"
_PATCHES = f"{_BASALT}/patches"
_DOLOMITE = "sglang_dolomite"


def _aurora(name: str, file: str, old: str, new: str, id: str, severity: str, at: str, says: tuple[str, ...],
            fix: tuple[str, ...], repair: tuple[Edit, ...] = ()) -> Defect:  # fmt: skip
    return Defect(name, "aurora", (Edit(file, old, new),), id, severity, Place(file, at), says, fix, repair)


AURORA = (
    _aurora(
        "a name with a slip", _PLATFORM, "def get_dispatch_key_name(self)", "def get_dispatch_key(self)",
        "override-dead", "warning", "def get_dispatch_key(self)",
        ("AuroraPlatform.get_dispatch_key", "does not call"), ("rename it to get_dispatch_key_name",),
    ),
    _aurora(
        "a renamed keyword of a factory", _PLATFORM, 'def get_kv_pool_cls(self, *, kind):\n        if kind != "mha":',
        'def get_kv_pool_cls(self, pool_kind):\n        if pool_kind != "mha":',
        "override-signature", "problem", "def get_kv_pool_cls(self, pool_kind)",
        ("AuroraPlatform.get_kv_pool_cls(pool_kind)", "lost parameter 'kind'", "SGLang 0.5.23 calls", "kind="),
        ("write it as get_kv_pool_cls(*, kind)",),
    ),
    _aurora(
        "a lost argument", _PLATFORM, "def get_group_coordinator_device(self, local_rank):\n        return self.get_device(local_rank)",
        "def get_group_coordinator_device(self):\n        return self.get_device()",
        "override-signature", "problem", "def get_group_coordinator_device(self)",
        ("lost parameter 'local_rank'", "get_group_coordinator_device(local_rank)", "parallel_state.py"),
        ("write it as get_group_coordinator_device(local_rank)",),
    ),
    _aurora(
        "a lost argument that no call passes", _DEVICE, "def get_current_memory_usage(self, device=None)", "def get_current_memory_usage(self)",
        "override-signature", "warning", "def get_current_memory_usage(self)",
        ("AuroraDeviceMixin.get_current_memory_usage()", "lost parameter 'device'"),
        ("write it as get_current_memory_usage(device=None)",),
    ),
    _aurora(
        "a method where SGLang reads a value", _PLATFORM, '    supported_quantization = ["w8a8_int8", "aurora_w4"]\n',
        '    def supported_quantization(self):\n        return ["w8a8_int8", "aurora_w4"]\n\n',
        "override-kind", "problem", "def supported_quantization(self)",
        ("is a method", "reads supported_quantization as an attribute"), ("assign it in the class body",),
    ),
    _aurora(
        "a factory that answers a name", _PLATFORM, "        from .graph import AuroraGraphRunner\n\n        return AuroraGraphRunner",
        '        return "sglang_aurora.graph.AuroraGraphRunner"',
        "factory-answer", "problem", "def get_graph_runner_cls(self)",
        ("get_graph_runner_cls() answers 'sglang_aurora.graph.AuroraGraphRunner'", "wants a class or None"),
        ("return the class itself",),
    ),
    _aurora(
        "an attention backend that nobody registers", _PLATFORM, 'return "aurora"\n\n    def get_graph_runner_cls', 'return "aurora_attn"\n\n    def get_graph_runner_cls',
        "factory-answer", "problem", "def get_default_attention_backend(self)",
        ("answers 'aurora_attn'", "no attention backend of that name is registered"), ("answer 'aurora'",),
    ),
    _aurora(
        "a method that every launch asks for, left out", _DEVICE,
        "    def get_device_total_memory(self, device_id: int = 0) -> int:\n        return _Driver.memory(device_id)[1]\n\n", "",
        "override-missing", "problem", "def get_device_uuid",
        ("AuroraPlatform does not override get_device_total_memory; SGLang 0.5.23 calls it with", "raises NotImplementedError"),
        ("write get_device_total_memory(device_id=0) in AuroraPlatform",),
    )._replace(where=Place(_PLATFORM, "class AuroraPlatform")),
    _aurora(
        "two values for three", _POOLS, "return pointers, lengths, items", "return pointers, lengths",
        "override-values", "problem", "def get_contiguous_buf_infos",
        ("AuroraMHATokenToKVPool.get_contiguous_buf_infos gives 2 values", "SGLang 0.5.23 takes 3"), ("return 3 values",),
    ),
    _aurora(
        "a pool without the newer arguments", _POOLS, "k_scale=None, v_scale=None, *args, **kwargs):", "k_scale=None, v_scale=None):",
        "override-signature", "warning", "def set_kv_buffer",
        ("AuroraMHATokenToKVPool.set_kv_buffer", "lost parameter 'layer_id_override'", "SGLang 0.5.23 calls", "layer_id_override="),
        ("write it as set_kv_buffer(",),
    ),
    _aurora(
        "a page allocator without decode", _ALLOCATOR,
        "    def alloc_decode(self, seq_lens, seq_lens_cpu, last_loc):\n        return self._take(len(seq_lens))\n\n", "",
        "override-missing", "problem", "class AuroraPagedAllocator",
        ("AuroraPagedAllocator does not override alloc_decode; SGLang 0.5.23 calls it with", "raises NotImplementedError"),
        ("write alloc_decode(seq_lens, seq_lens_cpu, last_loc)", "derive it from PagedTokenToKVPoolAllocator"),
    ),
    _aurora(
        "an allocation with the arguments of 0.5.11", _ALLOCATOR,
        "        prefix_lens,\n        prefix_lens_cpu,\n        seq_lens,\n        seq_lens_cpu,\n        last_loc,\n"
        "        extend_num_tokens,\n        num_new_pages=None,\n",
        "        prefix_lens,\n        seq_lens,\n        last_loc,\n        extend_num_tokens,\n",
        "override-signature", "problem", "def alloc_extend(",
        ("AuroraPagedAllocator.alloc_extend", "lost parameter 'prefix_lens_cpu'", "SGLang 0.5.23 calls"),
        ("write it as alloc_extend(prefix_lens, prefix_lens_cpu",),
    ),
    _aurora(
        "a base class called with too little", _ALLOCATOR, "super().__init__(size, page_size, dtype, device, kvcache, need_sort)",
        "super().__init__(size, page_size, dtype, device, kvcache)",
        "host-call-refused", "problem", "super().__init__(size",
        ("does not take the call super().__init__(size, page_size, dtype, device, kvcache)", "BaseTokenToKVPoolAllocator.__init__"),
        ("need_sort",),
    ),
    _aurora(
        "an attention backend without a newer argument", _ATTENTION, "def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):",
        "def init_forward_metadata_out_graph(self, forward_batch):",
        "override-signature", "warning", "def init_forward_metadata_out_graph",
        ("AuroraAttentionBackend.init_forward_metadata_out_graph", "lost parameter 'in_capture'", "in_capture=True"),
        ("write it as init_forward_metadata_out_graph(forward_batch, in_capture=False)",),
    ),
    _aurora(
        "a method of attention that SGLang has given up", _ATTENTION, "    def init_cuda_graph_state(self, max_bs, max_num_tokens):\n",
        "    def init_forward_metadata_capture_cuda_graph(self, bs, num_tokens, *args):\n        self.bs = bs\n\n"
        "    def init_cuda_graph_state(self, max_bs, max_num_tokens):\n",
        "override-dead", "warning", "def init_forward_metadata_capture_cuda_graph",
        ("does not call AuroraAttentionBackend.init_forward_metadata_capture_cuda_graph",), ("remove it", ),
    )._replace(fix=("",)),
    _aurora(
        "an abstract method left out", _W4, '    @staticmethod\n    def get_config_filenames():\n        return ["aurora_config.json"]\n\n', "",
        "override-missing", "problem", "class AuroraW4Config",
        ("AuroraW4Config does not override get_config_filenames", "is abstract"), ("write @staticmethod def get_config_filenames()",),
    ),
    _aurora(
        "a result of two where SGLang gives three", _HOOKS, "    retracted, new_token_ratio, to_abort = result\n",
        "    retracted, new_token_ratio = result\n    to_abort = []\n",
        "hook-changed", "problem", "        _hook(target, hook)",
        ("retract_decode does not fit", "it takes 2 values", "gives 3"), ("take the target's arguments and give its result",),
    ),
    _aurora(
        "a hook without room for an argument", _HOOKS, "def time_batch(original, self, batch, *args, **kwargs):\n    return original(self, batch, *args, **kwargs)",
        "def time_batch(original, self, batch):\n    return original(self, batch)",
        "hook-changed", "problem", "_hook(\"sglang.srt.managers.scheduler.Scheduler.run_batch\"",
        ("the hook on sglang.srt.managers.scheduler.Scheduler.run_batch does not fit", "self.run_batch(", "pp_proxy_tensors"),
        ("take *args and **kwargs",),
    ),
    _aurora(
        "an op that moved", _HOOKS, "from sglang.srt.plugins.hook_registry import HookRegistry, HookType",
        "from sglang.srt.plugins.hook_registry import HookRegistry, HookType\n\n\ndef _older():\n"
        "    from sglang.srt.mem_cache.memory_pool_allocators import TokenToKVPoolAllocator\n\n    return TokenToKVPoolAllocator",
        "host-import-missing", "problem", "memory_pool_allocators",
        ("SGLang 0.5.23 has no sglang.srt.mem_cache.memory_pool_allocators", "the import fails"), ("",),
    ),
)  # fmt: skip


def _other(plugin: str, name: str, edits: tuple[Edit, ...], id: str, severity: str, at: Place | None,
           says: tuple[str, ...], fix: tuple[str, ...], repair: tuple[Edit, ...] = ()) -> Defect:  # fmt: skip
    return Defect(name, plugin, edits, id, severity, at, says, fix, repair)


BASALT = (
    _other(
        "basalt", "a mixin behind SGLang's class", (
            Edit(f"{_BASALT}/platform.py", "class BasaltPlatform(RuntimeMixin, SRTPlatform):\n",
                 "class BasaltMemory:\n    def is_pin_memory_available(self, device=None):\n        return False\n\n\n"
                 "class BasaltPlatform(RuntimeMixin, SRTPlatform, BasaltMemory):\n"),
            Edit(f"{_BASALT}/platform.py", "        return torch.profiler.ProfilerActivity.CPU\n\n    def is_pin_memory_available(self, device=None):\n        return False\n",
                 "        return torch.profiler.ProfilerActivity.CPU\n"),
        ),
        "override-unreached", "problem", Place(f"{_BASALT}/platform.py", "def is_pin_memory_available"),
        ("BasaltMemory.is_pin_memory_available is never reached", "stands before BasaltMemory"),
        ("put BasaltMemory first in the bases of BasaltPlatform",),
        (Edit(f"{_BASALT}/platform.py", "(RuntimeMixin, SRTPlatform, BasaltMemory)", "(BasaltMemory, RuntimeMixin, SRTPlatform)"),),
    ),
    _other(
        "basalt", "no identity", (Edit(f"{_BASALT}/platform.py", "    _enum = PlatformEnum.OOT\n", "    vendor = PlatformEnum.OOT\n"),),
        "identity-missing", "problem", Place(f"{_BASALT}/platform.py", "class BasaltPlatform"),
        ("BasaltPlatform does not say `_enum = PlatformEnum.OOT`", "is_out_of_tree()"), ("write `_enum = PlatformEnum.OOT` in BasaltPlatform",),
        (Edit(f"{_BASALT}/platform.py", "    vendor = PlatformEnum.OOT\n", "    _enum = PlatformEnum.OOT\n"),),
    ),
    _other(
        "basalt", "a pool made in a function, with too few arguments", (
            Edit(f"{_BASALT}/memory.py", "def get_cpu_copy(self, indices, mamba_indices=None, req_pool_index=None):\n            return super().get_cpu_copy(indices, mamba_indices, req_pool_index)",
                 "def get_cpu_copy(self, indices):\n            return super().get_cpu_copy(indices)"),
        ),
        "override-signature", "warning", Place(f"{_BASALT}/memory.py", "def get_cpu_copy"),
        ("BasaltPool.get_cpu_copy(indices)", "lost parameter 'mamba_indices'", "SGLang 0.5.23 calls"), ("write it as get_cpu_copy(indices, mamba_indices=None, req_pool_index=None)",),
    ),
    _other(
        "basalt", "three values taken where SGLang gives two", (
            Edit(f"{_PATCHES}/workers.py", "requests, allocator = super().get_memory_pool()", "requests, allocator, _ = super().get_memory_pool()"),
        ),
        "override-values", "problem", Place(f"{_PATCHES}/workers.py", "= super().get_memory_pool()"),
        ("3 values are taken", "get_memory_pool", "gives 2"), ("take 2 values",),
    ),
    _other(
        "basalt", "a name written where nobody reads it any more", (
            Edit(f"{_PATCHES}/workers.py", "from sglang.srt.managers import tp_worker\n", "from sglang.srt.managers import scheduler, tp_worker\n"),
            Edit(f"{_PATCHES}/workers.py", "    tp_worker.TpModelWorker = BasaltWorker", "    scheduler.TpModelWorker = BasaltWorker"),
        ),
        "hook-moved", "problem", Place(f"{_PATCHES}/workers.py", "scheduler.TpModelWorker ="),
        ("sglang.srt.managers.scheduler.TpModelWorker is not where SGLang has it now",), ("use sglang.srt.managers.tp_worker:TpModelWorker",),
        (Edit(f"{_PATCHES}/workers.py", "    scheduler.TpModelWorker = BasaltWorker", "    tp_worker.TpModelWorker = BasaltWorker"),),
    ),
    _other(
        "basalt", "a slip in a name that a helper patches", (Edit(f"{_PATCHES}/scheduler.py", '_wrap("get_next_batch_to_run")', '_wrap("get_next_batch_to_rum")'),),
        "hook-missing", "problem", Place(f"{_PATCHES}/scheduler.py", '_wrap("'),
        ("sglang.srt.managers.scheduler.Scheduler.get_next_batch_to_rum",), ("get_next_batch_to_run",),
    ),
    _other(
        "basalt", "a function written over one with more arguments", (
            Edit(f"{_PATCHES}/memory_report.py", "def get_available_gpu_memory(device, gpu_id, distributed=False, empty_cache=True, cpu_group=None):", "def get_available_gpu_memory(device, gpu_id):"),
        ),
        "hook-changed", "problem", Place(f"{_PATCHES}/memory_report.py", "    common.get_available_gpu_memory = "),
        ("the function written to sglang.srt.utils.common.get_available_gpu_memory does not fit", "get_available_gpu_memory("), ("take the target's arguments",),
    ),
    _other(
        "basalt", "the same function, written into the package that re-exports it", (),
        "hook-changed", "problem", Place(f"{_PATCHES}/memory_report.py", "    sglang.srt.utils.get_available_gpu_memory = "),
        ("the function written to sglang.srt.utils.get_available_gpu_memory does not fit",), ("take the target's arguments",),
    ),
    _other(
        "basalt", "a class of SGLang's that moved", (
            Edit(f"{_PATCHES}/quantization.py", "from sglang.srt.layers.quantization.w8a8_int8 import", "from sglang.srt.layers.quantization.int8_w8a8 import"),
        ),
        "host-import-missing", "problem", Place(f"{_PATCHES}/quantization.py", "int8_w8a8 import"),
        ("SGLang 0.5.23 has no sglang.srt.layers.quantization.int8_w8a8",), ("",),
    ),
)  # fmt: skip

DOLOMITE = (
    _other(
        "dolomite", "the graph switch of 0.5.11", (
            Edit(f"{_DOLOMITE}/platform.py", '    if hasattr(interface, "PlatformCapabilities"):\n        capabilities = interface.PlatformCapabilities(graph_capture=False)\n\n', ""),
            Edit(f"{_DOLOMITE}/mixins.py", "    def support_piecewise_cuda_graph(self) -> bool:\n        return False\n", ""),
        ),
        "override-dead", "problem", Place(f"{_DOLOMITE}/mixins.py", "def support_cuda_graph"),
        ("does not call DolomiteOlderNames.support_cuda_graph", "last called by SGLang 0.5.21"), ("capabilities.graph_capture", "PlatformCapabilities(graph_capture=True)"),
        (
            Edit(f"{_DOLOMITE}/platform.py", '    device_type: str = "cpu"\n', '    device_type: str = "cpu"\n    capabilities = interface.PlatformCapabilities(graph_capture=True)\n'),
        ),
    ),
    _other(
        "dolomite", "fp8, which SGLang's struct has no field for", (
            Edit(f"{_DOLOMITE}/mixins.py", "    def support_cuda_graph(self) -> bool:\n", "    def supports_fp8(self) -> bool:\n        return True\n\n    def support_cuda_graph(self) -> bool:\n"),
        ),
        "override-dead", "problem", Place(f"{_DOLOMITE}/mixins.py", "def supports_fp8"),
        ("does not call DolomiteOlderNames.supports_fp8",), ("remove it", "PlatformCapabilities has graph_capture"),
        (Edit(f"{_DOLOMITE}/mixins.py", "    def supports_fp8(self) -> bool:\n        return True\n\n", ""),),
    ),
    _other(
        "dolomite", "the pools by their older name alone", (
            Edit(f"{_DOLOMITE}/platform.py", '    def get_kv_pool_cls(self, *, kind: str):\n        return self.get_mha_kv_pool_cls() if kind == "mha" else None\n\n', ""),
        ),
        "override-older-name", "warning", Place(f"{_DOLOMITE}/mixins.py", "def get_mha_kv_pool_cls"),
        ("get_mha_kv_pool_cls() is an older name, which SGLang 0.5.23 still serves",), ("write get_kv_pool_cls(kind='mha')",),
        (
            Edit(f"{_DOLOMITE}/platform.py", "    def get_compile_backend(", '    def get_kv_pool_cls(self, *, kind):\n        return self.get_mha_kv_pool_cls() if kind == "mha" else None\n\n    def get_compile_backend('),
        ),
    ),
    _other(
        "dolomite", "a factory that raises", (
            Edit(f"{_DOLOMITE}/mixins.py", "        from .pool import DolomitePool\n", "        from .pools import DolomitePool\n"),
        ),
        "factory-answer", "problem", None,
        ("raises ModuleNotFoundError", "No module named 'sglang_dolomite.pools'", "mixins.py"), ("correct what raises",),
    ),
)  # fmt: skip

DEFECTS = (*AURORA, *BASALT, *DOLOMITE)
