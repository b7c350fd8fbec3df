"""Everything that is registered in each process of SGLang."""

import logging

from sglang.srt.plugins.hook_registry import HookRegistry, HookType

logger = logging.getLogger(__name__)

_OPS = {
    "sglang.srt.layers.layernorm": ("RMSNorm", "rms_norm"),
    "sglang.srt.layers.activation": ("SiluAndMul", "silu_and_mul"),
}


def register():
    _register_backends()
    _register_ops()
    for target, hook in (
        ("sglang.srt.managers.schedule_batch.ScheduleBatch.retract_decode", count_retracted),
        ("sglang.srt.mem_cache.allocation.alloc_for_extend", trace_extend),
    ):
        _hook(target, hook)
    _hook("sglang.srt.managers.scheduler.Scheduler.run_batch", time_batch, HookType.AROUND)


def _hook(target, function, hook_type=HookType.AFTER):
    HookRegistry.register(target, function, hook_type)


def _register_backends():
    from sglang.srt.layers.attention.attention_registry import register_attention_backend

    @register_attention_backend("aurora")
    def create(runner):
        from .attention import AuroraAttentionBackend

        return AuroraAttentionBackend(runner)


def _register_ops():
    import importlib

    from sglang.kernels.fused_op import BaseFusedOp

    from . import ops

    for module, (name, function) in _OPS.items():
        op = getattr(importlib.import_module(module), name)
        BaseFusedOp.register_oot_forward(op, getattr(ops, function), "aurora")


def count_retracted(result, batch):
    retracted, new_token_ratio, to_abort = result
    if retracted:
        logger.info("%d retracted, ratio %.2f, %d aborted", len(retracted), new_token_ratio, len(to_abort))


def trace_extend(result, batch):
    locations, _, _ = result
    logger.debug("extend: %d slots", len(locations))


def time_batch(original, self, batch, *args, **kwargs):
    return original(self, batch, *args, **kwargs)
