"""Counters of the diffusion runtime's own parts."""

from __future__ import annotations

from sglang_platform.core.sglang.evidence.call_counts import count_calls, counts_wanted

__all__ = ["HOST_COUNTERS", "register_hooks"]

_RUNTIME = "sglang.multimodal_gen.runtime"
_ATTENTION = f"{_RUNTIME}.layers.attention"

HOST_COUNTERS: dict[str, tuple[str, ...]] = {
    "host.diffusion.worker": (f"{_RUNTIME}.managers.gpu_worker:GPUWorker.__init__",),
    "host.diffusion.denoising_steps": (
        f"{_RUNTIME}.pipelines_core.stages.denoising:DenoisingStage._run_denoising_step",
    ),
    "host.diffusion.attention_calls": (f"{_ATTENTION}.backends.sdpa:SDPAImpl.forward",),
    "host.diffusion.attention_layers": (f"{_ATTENTION}.layer:USPAttention.forward",),
}
"""The counters, each with the functions of SGLang whose calls it counts."""


def register_hooks() -> None:
    """Register the counters, if counts are enabled."""
    if counts_wanted():
        count_calls(HOST_COUNTERS)
