"""Functions and methods of SGLang that a plugin calls, with the arguments of some release."""
# ruff: noqa
# fmt: off

from sglang.srt.distributed.communication_op import tensor_model_parallel_all_reduce
from sglang.srt.distributed.parallel_state import GroupCoordinator, init_distributed_environment, init_world_group, initialize_model_parallel, patch_tensor_parallel_group
from sglang.srt.layers.attention.triton_backend import update_sliding_window_buffer
from sglang.srt.layers.dp_attention import compute_dp_attention_world_info, dp_scatter, get_global_dp_buffer, get_local_dp_buffer, initialize_dp_attention, set_dp_buffer_len
from sglang.srt.layers.logits_processor import autotune_dummy_run_mode
from sglang.srt.layers.moe.topk import fused_topk, fused_topk_cpu
from sglang.srt.layers.quantization.unquant import initialize_bf16_gemm_config
from sglang.srt.layers.sampler import top_k_top_p_min_p_sampling_from_logits_ascend
from sglang.srt.mem_cache.base_prefix_cache import zero_match_result
from sglang.srt.mem_cache.common import alloc_paged_token_slots_decode, release_kv_cache
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool, move_kv_cache_native
from sglang.srt.managers.schedule_batch import set_mamba_track_indices_from_reqs
from sglang.srt.managers.scheduler import run_scheduler_process
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.model_executor.forward_batch_info import compute_local_num_token_non_padded, enable_num_token_non_padded, get_server_return_hidden_states_mode
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.utils import get_bool_env_var


def use(server_args, group: GroupCoordinator, pool: MHATokenToKVPool, latent: MLATokenToKVPool, runner: ModelRunner, worker: TpModelWorker, x):
    move_kv_cache_native(x, x, x, x)  # call: srt/mem_cache/memory_pool.py move_kv_cache_native
    zero_match_result(x, x)  # call: srt/mem_cache/base_prefix_cache.py zero_match_result
    alloc_paged_token_slots_decode(x, x, x, x)  # call: srt/mem_cache/common.py|srt/mem_cache/allocation.py alloc_paged_token_slots_decode
    release_kv_cache(x, x)  # call: srt/mem_cache/common.py release_kv_cache
    update_sliding_window_buffer(x, x, x, x, x, x, x)  # call: srt/layers/attention/triton_backend.py update_sliding_window_buffer
    enable_num_token_non_padded(server_args)  # call: srt/model_executor/forward_batch_info.py enable_num_token_non_padded
    get_server_return_hidden_states_mode(server_args)  # call: srt/model_executor/forward_batch_info.py get_server_return_hidden_states_mode
    compute_local_num_token_non_padded(x, x)  # call: srt/model_executor/forward_batch_info.py compute_local_num_token_non_padded
    set_mamba_track_indices_from_reqs(x)  # call: srt/managers/schedule_batch.py set_mamba_track_indices_from_reqs
    run_scheduler_process(server_args, x, 0, 0, 0, 0, 0, 0, 0, x)  # call: srt/managers/scheduler.py run_scheduler_process
    initialize_model_parallel(1, 1, 1)  # call: srt/distributed/parallel_state.py initialize_model_parallel
    init_distributed_environment(1, 0, x, 0, "gloo")  # call: srt/distributed/parallel_state.py init_distributed_environment
    init_world_group([0], 0, "gloo")  # call: srt/distributed/parallel_state.py init_world_group
    patch_tensor_parallel_group(group)  # call: srt/distributed/parallel_state.py patch_tensor_parallel_group
    get_global_dp_buffer()  # call: srt/layers/dp_attention.py get_global_dp_buffer
    get_local_dp_buffer(group)  # call: srt/layers/dp_attention.py get_local_dp_buffer
    set_dp_buffer_len(1, 1, True)  # call: srt/layers/dp_attention.py set_dp_buffer_len
    initialize_dp_attention(server_args, x)  # call: srt/layers/dp_attention.py initialize_dp_attention
    dp_scatter(x, x, x)  # call: srt/layers/dp_attention.py dp_scatter
    compute_dp_attention_world_info(True, 0, 1, 1)  # call: srt/layers/dp_attention.py compute_dp_attention_world_info
    autotune_dummy_run_mode()  # call: srt/layers/logits_processor.py autotune_dummy_run_mode
    fused_topk(x, x, 2, True)  # call: srt/layers/moe/topk.py fused_topk
    fused_topk_cpu(x, x, 2, True)  # call: srt/layers/moe/topk.py fused_topk_cpu
    initialize_bf16_gemm_config(server_args)  # call: srt/layers/quantization/unquant.py initialize_bf16_gemm_config
    top_k_top_p_min_p_sampling_from_logits_ascend(x, x, x, x, False)  # call: srt/layers/sampler.py top_k_top_p_min_p_sampling_from_logits_ascend
    tensor_model_parallel_all_reduce(x)  # call: srt/distributed/communication_op.py tensor_model_parallel_all_reduce
    get_bool_env_var("X")  # call: srt/utils/common.py get_bool_env_var
    group.recv_object(0)  # call: srt/distributed/parallel_state.py GroupCoordinator.recv_object
    group.broadcast(x)  # call: srt/distributed/parallel_state.py GroupCoordinator.broadcast
    pool.get_cpu_copy(x)  # call: srt/mem_cache/memory_pool.py MHATokenToKVPool.get_cpu_copy
    pool.set_kv_buffer(layer=x, loc=x, cache_k=x, cache_v=x)  # call: srt/mem_cache/memory_pool.py MHATokenToKVPool.set_kv_buffer
    latent.set_mla_kv_buffer(x, x, x, x)  # call: srt/mem_cache/memory_pool.py MLATokenToKVPool.set_mla_kv_buffer
    worker.forward_batch_generation(model_worker_batch=x)  # call: srt/managers/tp_worker.py TpModelWorker.forward_batch_generation
