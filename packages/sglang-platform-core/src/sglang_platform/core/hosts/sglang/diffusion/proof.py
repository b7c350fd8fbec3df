"""Counts what the diffusion runtime's own parts do, beside what a device's do, to prove which of them served.

Active only with `SGLANG_PLATFORM_REPORT_DIR` set, as `proof` is for the LLM runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.core.counters import counter
from sglang_platform.core.hooks.registry import HookRegistry, HookType

__all__ = ["HOST_COUNTERS", "register_hooks"]

_RUNTIME = "sglang.multimodal_gen.runtime"
_ATTENTION = f"{_RUNTIME}.layers.attention"

HOST_COUNTERS: dict[str, str] = {
    "host.diffusion.worker": f"{_RUNTIME}.managers.gpu_worker:GPUWorker.__init__",
    "host.diffusion.denoising_steps": f"{_RUNTIME}.pipelines_core.stages.denoising:DenoisingStage._run_denoising_step",
    "host.diffusion.attention_calls": f"{_ATTENTION}.backends.sdpa:SDPAImpl.forward",
    "host.diffusion.attention_layers": f"{_ATTENTION}.layer:USPAttention.forward",
}
"""Each count with the function of the host that makes it."""


def register_hooks() -> None:
    """Register one counting hook per target. A target that this version lacks is reported, not an error."""
    for name, target in HOST_COUNTERS.items():
        HookRegistry.register(target, _counting(counter(name).add), HookType.BEFORE, required=False)


def _counting(add: Callable[[], None]) -> Callable[..., None]:
    def before(*args: Any, **kwargs: Any) -> None:
        add()

    return before
