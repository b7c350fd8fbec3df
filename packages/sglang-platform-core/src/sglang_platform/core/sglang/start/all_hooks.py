"""Registers the hooks of every module of the adapter, in a fixed order.

Each module gets the platform of this process and the facts of this SGLang release, and registers the hooks they need,
if any. Hooks on one target are nested in this order, the first innermost. `registration` defines which hooks may be
missing.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.sglang import disaggregation, lora, registries, served_model, structured_output
from sglang_platform.core.sglang.arguments import compiled_libraries, only_on_cuda, server_args
from sglang_platform.core.sglang.attention import data_parallel as dp_attention
from sglang_platform.core.sglang.attention import layers as attention_layers
from sglang_platform.core.sglang.device import answers as device_answers
from sglang_platform.core.sglang.device import (
    first_device,
    media_processor,
    model_runner_calls,
    sent_tensors,
    stream_order,
)
from sglang_platform.core.sglang.groups import communicator
from sglang_platform.core.sglang.groups import device as group_device
from sglang_platform.core.sglang.memory import saver as memory_saver
from sglang_platform.core.sglang.memory import worker as worker_memory
from sglang_platform.core.sglang.ops import rotary_embedding, triton_functions
from sglang_platform.core.sglang.pools import choice as pool_choice
from sglang_platform.core.sglang.pools import hierarchical_cache
from sglang_platform.core.sglang.quantisation import checkpoints as quantised_checkpoints
from sglang_platform.core.sglang.quantisation import config as quantization_config
from sglang_platform.core.sglang.rebase import is_rebased
from sglang_platform.core.sglang.repairs import (
    absent_experts,
    control_requests,
    http_errors,
    lost_process,
    ray_actors,
    requests,
    token_logprobs,
)
from sglang_platform.core.sglang.speculative import draft_attention as speculative_drafts
from sglang_platform.core.sglang.speculative import kernels as speculative_kernels
from sglang_platform.core.sglang.speculative import launch as speculative_launch
from sglang_platform.core.sglang.speculative import sampling as speculative_sampling
from sglang_platform.core.sglang.start import child_processes
from sglang_platform.core.sglang.state_layers import kernels as state_kernels
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register the hooks that this SGLang release needs: for the registries, then for a re-based platform."""
    child_processes.register_hooks(platform, host)
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
    attention_layers.register_hooks(platform)
    rotary_embedding.register_hooks(platform, host)
    structured_output.register_hooks(platform, host)
    device_answers.register_hooks(platform, host)
    lora.register_hooks(platform, host)
    state_kernels.register_hooks(platform, host)
    triton_functions.register_hooks(platform, host)
    quantization_config.register_hooks(platform, host)
    quantised_checkpoints.register_hooks(platform, host)
    group_device.register_hooks(platform, host)
    if host.speculative_kernels:
        speculative_drafts.register_hooks(platform, host)
    if platform.is_out_of_tree():
        # On a device of SGLang's own its faults are left to it: installing a package there changes served parts only.
        requests.register_hooks(platform, host)
        control_requests.register_hooks(platform, host)
        token_logprobs.register_hooks(platform, host)
        absent_experts.register_hooks(platform, host)
        http_errors.register_hooks(platform, host)
        lost_process.register_hooks(platform, host)
    hierarchical_cache.register_hooks(platform, host)
    worker_memory.register_hooks(platform)
    memory_saver.register_hooks(platform, host)
    media_processor.register_hooks(platform, host)
    sent_tensors.register_hooks(platform, host)
    disaggregation.register_hooks(platform, host)
    dp_attention.register_hooks(platform, host)
    only_on_cuda.register_hooks(platform, host)
    compiled_libraries.register_hooks(platform, host)
    if not (platform.is_cuda() and host.barrier_asks_backend):
        stream_order.register_hooks(host)
    ray_actors.register_hooks(platform)
    if platform.is_out_of_tree():
        speculative_launch.register_hooks(platform, host)
        if host.speculative_kernels:
            speculative_kernels.register_hooks(platform, host)
            speculative_sampling.register_hooks(platform, host)
