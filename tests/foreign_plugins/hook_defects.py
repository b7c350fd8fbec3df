"""Mistakes in hooks on SGLang's own registry, which looks whether a target exists and no further. All are planted at
once, and asked of `sglang-platform hooks check`."""

from __future__ import annotations

from defect import Defect, Place
from installed_plugin import Edit

__all__ = ["DEFECTS"]

_MEMORY = "sglang_cobalt/memory.py"
_SCHEDULING = "sglang_cobalt/scheduling.py"
_LOOP = "HookRegistry.register(target, function, hook_type)"


def _cobalt(name: str, file: str, old: str, new: str, verdict: str, at: str, says: tuple[str, ...], fix: tuple[str, ...] = (),
            repair: tuple[Edit, ...] = ()) -> Defect:  # fmt: skip
    return Defect(
        name, "cobalt", (Edit(file, old, new),), verdict, "problem", Place(file, at), says, fix, repair
    )


def _one_more(name: str, target: str, function: str, kind: str, verdict: str, says: tuple[str, ...], fix: tuple[str, ...],
              repaired: str) -> Defect:  # fmt: skip
    """A hook that is registered beside the others, and what is registered in its place once the message is followed."""
    own = function.partition("def ")[2].partition("(")[0]
    text = f'\n\n@plugin_hook("{target}", type=HookType.{kind})\n{function}'
    return Defect(
        name, "cobalt", (Edit(_SCHEDULING, "", text),), verdict, "problem", Place(_SCHEDULING, f'@plugin_hook("{target}"'),
        says, fix, (Edit(_SCHEDULING, text, repaired.replace("OWN", own)),),
    )  # fmt: skip


DEFECTS = (
    _cobalt(
        "a class under its older path", _MEMORY, '"sglang.srt.mem_cache.allocator.paged.PagedTokenToKVPoolAllocator": (',
        '"sglang.srt.mem_cache.paged_allocator.PagedTokenToKVPoolAllocator": (',
        "moved", _LOOP, ("PagedTokenToKVPoolAllocator", "has no 'paged_allocator'"),
        ("sglang.srt.mem_cache.allocator.paged:PagedTokenToKVPoolAllocator",),
    ),
    _cobalt(
        "a function under its older path", _MEMORY, '"sglang.srt.mem_cache.allocation.alloc_token_slots"', '"sglang.srt.mem_cache.common.alloc_token_slots"',
        "moved", _LOOP, ("sglang.srt.mem_cache.common.alloc_token_slots",), ("sglang.srt.mem_cache.allocation:alloc_token_slots",),
    ),
    _cobalt(
        "a replacement without the newer arguments", _MEMORY, "def free_memory(device, gpu_id, distributed=False, empty_cache=True, cpu_group=None):",
        "def free_memory(device, gpu_id):",
        "changed", _LOOP, ("the hook free_memory does not fit", "the host calls get_available_gpu_memory("), (),
    ),
    _cobalt(
        "a replacement without an argument that is passed", _MEMORY, "def capacity(device=None):", "def capacity():",
        "changed", _LOOP, ("the hook capacity does not fit", "get_device_memory_capacity("), (),
    ),
    _cobalt(
        "an AROUND hook without the original", _SCHEDULING, "def run_batch(original, self, batch, pp_proxy_tensors=None):\n    return original(self, batch, pp_proxy_tensors)",
        "def run_batch(self, batch, pp_proxy_tensors=None):\n    return None",
        "changed", '@plugin_hook(f"{SCHEDULER}.run_batch"', ("the hook run_batch does not fit", "self.run_batch(cur_batch, pp_proxy_tensors)"), (),
    ),
    _cobalt(
        "a slip in a method", _SCHEDULING, 'SCHEDULER + ".get_next_batch_to_run"', 'SCHEDULER + ".get_next_batch_to_rn"',
        "missing", '@plugin_hook(SCHEDULER + ', ("has no 'get_next_batch_to_rn'",), ("get_next_batch_to_run",),
    ),
    _cobalt(
        "a result of two where three are taken", _SCHEDULING, "    return retracted, max(ratio, 0.1), to_abort", "    return retracted, max(ratio, 0.1)",
        "changed", '@plugin_hook(f"{BATCH}.retract_decode")', ("it gives 2 values", "retract_decode gives 3"), (),
    ),
    _one_more(
        "a property", "sglang.srt.managers.schedule_batch.Req.seqlen", "def seqlen(result, self):\n    return result\n", "AFTER",
        "changed", ("the target is a property, and SGLang's registry makes a method of it",), (), "",
    ),
    _one_more(
        "an AFTER hook on what is async", "sglang.srt.managers.tokenizer_manager.TokenizerManager._tokenize_one_request",
        "def tokenized(result, self, obj):\n    return result\n", "AFTER",
        "changed", ("the target is async, and SGLang's registry gives the hook its coroutine",), (), "",
    ),
    _one_more(
        "a hook of another kind than REPLACE on a class", "sglang.srt.managers.scheduler.Scheduler", "def seen(result, *args):\n    return None\n", "AFTER",
        "changed", ("the target is a class, which can only be replaced",), (), "",
    ),
    _one_more(
        "a module that is gone", "sglang.srt.model_executor.cuda_graph_runner.CudaGraphRunner", "class Runner:\n    pass\n", "REPLACE",
        "missing", ("cuda_graph_runner",), (), "",
    ),
    _one_more(
        "a target with a colon", "sglang.srt.managers.io_struct:GenerateReqInput", "class Input:\n    pass\n", "REPLACE",
        "changed", ("SGLang's registry never applies it", "write sglang.srt.managers.io_struct.GenerateReqInput"), (),
        '\n\n@plugin_hook("sglang.srt.managers.io_struct.GenerateReqInput", type=HookType.REPLACE)\nclass Input:\n    pass\n',
    ),
)  # fmt: skip
