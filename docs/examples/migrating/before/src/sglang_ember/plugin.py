"""Registered in each process of SGLang: attention, fused ops, hooks."""

import importlib
import logging

from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from . import kernels

logger = logging.getLogger(__name__)

MAX_REQUESTS = 8
_OPS = {
    "sglang.srt.layers.layernorm": ("RMSNorm", "rms_norm"),
    "sglang.srt.layers.activation": ("SiluAndMul", "silu_and_mul"),
}


def register():
    _register_attention()
    _register_ops()
    HookRegistry.register("sglang.srt.server_args.ServerArgs.resolve_once", limit_requests, HookType.BEFORE)
    HookRegistry.register("sglang.srt.managers.scheduler.Scheduler.run_batch", count_step, HookType.AROUND)


def _register_attention():
    from sglang.srt.layers.attention.attention_registry import register_attention_backend

    @register_attention_backend("ember")
    def create(runner):
        from .attention import EmberAttention

        return EmberAttention(runner)


def _register_ops():
    from sglang.kernels.fused_op import BaseFusedOp

    from . import plugin

    for module, (name, function) in _OPS.items():
        op = getattr(importlib.import_module(module), name)
        BaseFusedOp.register_oot_forward(op, getattr(plugin, function), "ember")


def rms_norm(self, x, residual=None, post_residual_addition=None, quant_linear=None):
    if residual is None:
        return kernels.rms_norm(x, self.weight, self.variance_epsilon)
    total = x + residual
    if post_residual_addition is not None:
        total = total + post_residual_addition
    return kernels.rms_norm(total, self.weight, self.variance_epsilon), total


def silu_and_mul(self, x):
    return kernels.silu_and_mul(x)


def limit_requests(self):
    if self.max_running_requests is None or self.max_running_requests > MAX_REQUESTS:
        self.max_running_requests = MAX_REQUESTS


def count_step(original, self, batch, *args, **kwargs):
    self.ember_steps = getattr(self, "ember_steps", 0) + 1
    if self.ember_steps == 1:
        logger.info("Ember runs its first batch")
    return original(self, batch, *args, **kwargs)
