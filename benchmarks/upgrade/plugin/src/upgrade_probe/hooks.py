"""Functions of SGLang that a plugin hooks, or writes over."""
# ruff: noqa
# fmt: off

import sglang.srt.layers.dp_attention as dp_attention
import sglang.srt.mem_cache.common as common
import sglang.srt.utils.common as utils_common
from sglang.srt.distributed.parallel_state import GroupCoordinator
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.mem_cache.radix_cache import RadixCache
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.plugins.hook_registry import HookRegistry, HookType, plugin_hook


def after(result, *args, **kwargs):
    return None


def before(*args, **kwargs):
    return None


def register():
    HookRegistry.register("sglang.srt.managers.scheduler.Scheduler.get_next_batch_to_run", after, HookType.AFTER)  # hook: srt/managers/scheduler.py Scheduler.get_next_batch_to_run
    HookRegistry.register("sglang.srt.managers.schedule_batch.ScheduleBatch.get_model_worker_batch", after, HookType.AFTER)  # hook: srt/managers/schedule_batch.py ScheduleBatch.get_model_worker_batch
    HookRegistry.register("sglang.srt.model_executor.model_runner.ModelRunner.init_attention_backend", after, HookType.AFTER)  # hook: srt/model_executor/model_runner.py ModelRunner.init_attention_backend
    HookRegistry.register("sglang.srt.model_executor.model_runner.ModelRunner.init_device_graphs", after, HookType.AFTER)  # hook: srt/model_executor/model_runner.py ModelRunner.init_device_graphs
    HookRegistry.register("sglang.srt.model_executor.model_runner.ModelRunner.init_threads_binding", after, HookType.AFTER)  # hook: srt/model_executor/model_runner.py ModelRunner.init_threads_binding
    HookRegistry.register("sglang.srt.mem_cache.common.alloc_for_extend", before, HookType.BEFORE)  # hook: srt/mem_cache/common.py alloc_for_extend
    HookRegistry.register("sglang.srt.mem_cache.common.release_kv_cache", before, HookType.BEFORE)  # hook: srt/mem_cache/common.py release_kv_cache
    HookRegistry.register("sglang.srt.layers.dp_attention.initialize_dp_attention", after, HookType.AFTER)  # hook: srt/layers/dp_attention.py initialize_dp_attention
    HookRegistry.register("sglang.srt.distributed.parallel_state.initialize_model_parallel", after, HookType.AFTER)  # hook: srt/distributed/parallel_state.py initialize_model_parallel
    HookRegistry.register("sglang.srt.distributed.parallel_state.ensure_model_parallel_initialized", after, HookType.AFTER)  # hook: srt/distributed/parallel_state.py ensure_model_parallel_initialized
    HookRegistry.register("sglang.srt.layers.sampler.Sampler.forward", after, HookType.AFTER)  # hook: srt/layers/sampler.py Sampler.forward
    HookRegistry.register("sglang.srt.mem_cache.memory_pool.MLATokenToKVPool.set_mla_kv_buffer", before, HookType.BEFORE)  # hook: srt/mem_cache/memory_pool.py MLATokenToKVPool.set_mla_kv_buffer
    HookRegistry.register("sglang.srt.layers.logits_processor.LogitsProcessor.forward", after, HookType.AFTER)  # hook: srt/layers/logits_processor.py LogitsProcessor.forward
    HookRegistry.register("sglang.srt.managers.scheduler.run_scheduler_process", before, HookType.BEFORE)  # hook: srt/managers/scheduler.py run_scheduler_process


def get_attention_tp_size():
    return 1


def get_attention_dp_rank():
    return 0


def recv_object(self, src):
    return None


def set_kv_buffer(self, layer, loc, cache_k, cache_v, k_scale=None, v_scale=None, layer_id_override=None):
    return None


def cache_finished_req(self, req, is_insert=True):
    return None


def nothing(*args, **kwargs):
    return None


def patch():
    dp_attention.get_attention_tp_size = get_attention_tp_size  # patch: srt/layers/dp_attention.py get_attention_tp_size
    dp_attention.get_attention_dp_rank = get_attention_dp_rank  # patch: srt/layers/dp_attention.py get_attention_dp_rank
    common.alloc_token_slots = nothing  # patch: srt/mem_cache/common.py alloc_token_slots
    common.get_last_loc = nothing  # patch: srt/mem_cache/common.py get_last_loc
    utils_common.calculate_time = nothing  # patch: srt/utils/common.py calculate_time
    utils_common.crash_on_warnings = nothing  # patch: srt/utils/common.py crash_on_warnings
    utils_common.get_bool_env_var = nothing  # patch: srt/utils/common.py get_bool_env_var
    GroupCoordinator.recv_object = recv_object  # patch: srt/distributed/parallel_state.py GroupCoordinator.recv_object
    MHATokenToKVPool.set_kv_buffer = set_kv_buffer  # patch: srt/mem_cache/memory_pool.py MHATokenToKVPool.set_kv_buffer
    RadixCache.cache_finished_req = cache_finished_req  # patch: srt/mem_cache/radix_cache.py RadixCache.cache_finished_req
    setattr(ModelRunner, "init_piecewise_cuda_graphs", nothing)  # patch: srt/model_executor/model_runner.py ModelRunner.init_piecewise_cuda_graphs
    setattr(AttentionBackend, "init_forward_metadata_replay_cuda_graph", nothing)  # patch: srt/layers/attention/base_attn_backend.py AttentionBackend.init_forward_metadata_replay_cuda_graph
    Scheduler.run_batch = nothing  # patch: srt/managers/scheduler.py Scheduler.run_batch
