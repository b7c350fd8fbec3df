"""Every seam, in the order in which its hooks are registered.

Each is told the platform of this process and the facts of this host version, and registers what they call for, or
nothing. Hooks on one target are nested in this order, the first innermost. A hook here is required: where its target
is gone, the launch stops rather than run without the device's answer.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hosts.sglang import registries
from sglang_platform.core.hosts.sglang.rebase import is_rebased
from sglang_platform.core.hosts.sglang.seams import (
    communicator,
    control_requests,
    device_answers,
    disaggregation,
    dp_attention,
    first_device,
    grammar,
    group_device,
    hierarchical_cache,
    http_errors,
    lora,
    lost_process,
    media_processor,
    memory_saver,
    model_runner_calls,
    only_on_cuda,
    overlap,
    piecewise,
    pool_choice,
    processes,
    quantised_checkpoints,
    quantization_config,
    ray_actors,
    requests,
    rotary_embedding,
    server_args,
    speculative_drafts,
    speculative_kernels,
    speculative_launch,
    speculative_sampling,
    state_kernels,
    token_logprobs,
    triton_functions,
    worker_memory,
)
from sglang_platform.core.hosts.sglang.srt import served_model
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register the hooks that this host version needs: those of the registries, then those of a platform of ours."""
    processes.register_hooks(platform, host)
    served_model.register_hooks()
    registries.register_hooks(platform, host)
    if is_rebased(platform):
        _for_a_platform_of_ours(platform, host)


def _for_a_platform_of_ours(platform: Any, host: HostFacts) -> None:
    server_args.register_hooks(platform, host)
    first_device.register_hooks(platform, host)
    communicator.register_hooks(platform, host)
    pool_choice.register_hooks(platform, host)
    model_runner_calls.register_hooks(platform, host)
    rotary_embedding.register_hooks(platform, host)
    grammar.register_hooks(platform, host)
    device_answers.register_hooks(platform, host)
    lora.register_hooks(platform, host)
    state_kernels.register_hooks(platform, host)
    triton_functions.register_hooks(platform, host)
    quantization_config.register_hooks(platform, host)
    quantised_checkpoints.register_hooks(platform, host)
    if platform.is_out_of_tree() and host.asks_piecewise_backend and platform.capabilities.piecewise_graph:
        piecewise.register_hooks(platform)
    group_device.register_hooks(platform, host)
    if host.speculative_kernels:
        speculative_drafts.register_hooks(platform, host)
    requests.register_hooks(platform, host)
    control_requests.register_hooks(platform, host)
    token_logprobs.register_hooks(platform, host)
    http_errors.register_hooks(platform, host)
    lost_process.register_hooks(platform, host)
    hierarchical_cache.register_hooks(platform, host)
    worker_memory.register_hooks(platform)
    memory_saver.register_hooks(platform, host)
    media_processor.register_hooks(platform, host)
    disaggregation.register_hooks(platform, host)
    dp_attention.register_hooks(platform, host)
    only_on_cuda.register_hooks(platform, host)
    overlap.register_hooks(host)
    ray_actors.register_hooks(platform)
    if platform.is_out_of_tree():
        speculative_launch.register_hooks(platform, host)
        if host.speculative_kernels:
            speculative_kernels.register_hooks(platform, host)
            speculative_sampling.register_hooks(platform, host)
