"""Attributes of SGLang's objects that a plugin reads."""
# ruff: noqa
# fmt: off

from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.disaggregation.base.conn import KVArgs
from sglang.srt.layers.radix_attention import RadixAttention
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool
from sglang.srt.model_executor.forward_batch_info import ForwardBatch
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.server_args import ServerArgs


def read(batch: ForwardBatch, runner: ModelRunner, req: Req, args: ServerArgs, info: SamplingBatchInfo):
    a = batch.token_to_kv_pool  # field: srt/model_executor/forward_batch_info.py ForwardBatch.token_to_kv_pool
    a = batch.attn_backend  # field: srt/model_executor/forward_batch_info.py ForwardBatch.attn_backend
    a = batch.out_cache_loc  # field: srt/model_executor/forward_batch_info.py ForwardBatch.out_cache_loc
    a = batch.out_cache_loc_swa  # field: srt/model_executor/forward_batch_info.py ForwardBatch.out_cache_loc_swa
    a = batch.topk_indices  # field: srt/model_executor/forward_batch_info.py ForwardBatch.topk_indices
    a = batch.can_run_dp_cuda_graph  # field: srt/model_executor/forward_batch_info.py ForwardBatch.can_run_dp_cuda_graph
    a = batch.num_token_non_padded_cpu  # field: srt/model_executor/forward_batch_info.py ForwardBatch.num_token_non_padded_cpu
    a = batch.all_extend_in_batch  # field: srt/model_executor/forward_batch_info.py ForwardBatch.all_extend_in_batch
    a = batch.forward_mode  # field: srt/model_executor/forward_batch_info.py ForwardBatch.forward_mode
    a = runner.graph_runner  # field: srt/model_executor/model_runner.py ModelRunner.graph_runner
    a = runner.attention_layers  # field: srt/model_executor/model_runner.py ModelRunner.attention_layers
    a = runner.server_args  # field: srt/model_executor/model_runner.py ModelRunner.server_args
    a = runner.graph_mem_usage  # field: srt/model_executor/model_runner.py ModelRunner.graph_mem_usage
    a = runner.local_omp_cpuid  # field: srt/model_executor/model_runner.py ModelRunner.local_omp_cpuid
    a = req.fill_ids  # field: srt/managers/schedule_batch.py Req.fill_ids
    a = req.rid  # field: srt/managers/schedule_batch.py Req.rid
    a = info.vocab_mask  # field: srt/sampling/sampling_batch_info.py SamplingBatchInfo.vocab_mask
    a = info.temperatures  # field: srt/sampling/sampling_batch_info.py SamplingBatchInfo.temperatures
    a = args.nsa_prefill_backend  # field: ServerArgs nsa_prefill_backend
    a = args.cuda_graph_max_bs  # field: ServerArgs cuda_graph_max_bs
    a = args.mamba_scheduler_strategy  # field: ServerArgs mamba_scheduler_strategy
    a = args.enable_deepep_waterfill  # field: ServerArgs enable_deepep_waterfill
    a = args.torchao_config  # field: ServerArgs torchao_config
    a = args.enable_prefill_context_parallel  # field: ServerArgs enable_prefill_context_parallel
    a = args.keep_mm_feature_on_device  # field: ServerArgs keep_mm_feature_on_device
    a = args.cuda_graph_tc_compiler  # field: ServerArgs cuda_graph_tc_compiler
    a = args.speculative_skip_dp_mlp_sync  # field: ServerArgs speculative_skip_dp_mlp_sync
    a = args.model_path  # field: ServerArgs model_path
    a = args.page_size  # field: ServerArgs page_size


class Pool(MHATokenToKVPool):  # base: srt/mem_cache/memory_pool.py MHATokenToKVPool;srt/mem_cache/memory_pool.py KVCache
    def look(self):
        a = self.same_kv_dim  # field: srt/mem_cache/memory_pool.py MHATokenToKVPool.same_kv_dim
        return self.head_num  # field: srt/mem_cache/memory_pool.py MHATokenToKVPool.head_num


class Latent(MLATokenToKVPool):  # base: srt/mem_cache/memory_pool.py MLATokenToKVPool;srt/mem_cache/memory_pool.py KVCache
    def look(self):
        return self.nsa_kv_cache_store_fp8  # field: srt/mem_cache/memory_pool.py MLATokenToKVPool.nsa_kv_cache_store_fp8


def transfer(args: KVArgs):
    a = args.state_type  # field: srt/disaggregation/base/conn.py KVArgs.state_type
    a = args.ib_traffic_class  # field: srt/disaggregation/base/conn.py KVArgs.ib_traffic_class
    return args.page_size  # field: srt/disaggregation/base/conn.py KVArgs.page_size
