"""Classes of SGLang that a plugin makes objects of."""
# ruff: noqa
# fmt: off

from sglang.srt.distributed.parallel_state import GroupCoordinator
from sglang.srt.layers.logits_processor import LogitsProcessorOutput
from sglang.srt.layers.moe.moe_runner.base import MoeRunnerConfig
from sglang.srt.layers.moe.topk import StandardTopKOutput, TopKConfig
from sglang.srt.layers.quantization.fp8 import Fp8Config
from sglang.srt.layers.radix_attention import RadixAttention
from sglang.srt.managers.cache_controller import CacheOperation
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache.base_prefix_cache import DecLockRefParams, EvictParams, InsertParams, MatchPrefixParams, MatchResult
from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool, ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.model_executor.forward_batch_info import PPProxyTensors


def make(x):
    InsertParams(key=x, value=x)  # construct: srt/mem_cache/base_prefix_cache.py InsertParams
    InsertParams(key=x, chunked=True)  # construct: srt/mem_cache/base_prefix_cache.py InsertParams
    MatchPrefixParams(key=x)  # construct: srt/mem_cache/base_prefix_cache.py MatchPrefixParams
    MatchResult(device_indices=x, last_device_node=x, last_host_node=x)  # construct: srt/mem_cache/base_prefix_cache.py MatchResult
    DecLockRefParams(swa_uuid_for_lock=1)  # construct: srt/mem_cache/base_prefix_cache.py DecLockRefParams
    EvictParams(num_tokens=4)  # construct: srt/mem_cache/base_prefix_cache.py EvictParams
    GenerationBatchResult(logits_output=x, can_run_cuda_graph=False)  # construct: srt/managers/utils.py GenerationBatchResult
    LogitsProcessorOutput(next_token_logits=x)  # construct: srt/layers/logits_processor.py LogitsProcessorOutput
    TopKConfig(top_k=2, num_fused_shared_experts=0)  # construct: srt/layers/moe/topk.py TopKConfig
    StandardTopKOutput(x, x, x)  # construct: srt/layers/moe/topk.py StandardTopKOutput
    MoeRunnerConfig(num_experts=8)  # construct: srt/layers/moe/moe_runner/base.py MoeRunnerConfig
    RadixKey([1, 2], None)  # construct: srt/mem_cache/radix_cache.py RadixKey
    RadixAttention(8, 64, 0.125, 8, 0)  # construct: srt/layers/radix_attention.py RadixAttention
    Fp8Config(True, "dynamic")  # construct: srt/layers/quantization/fp8.py Fp8Config
    CacheOperation(x, x, 0)  # construct: srt/managers/cache_controller.py CacheOperation
    ReqToTokenPool(8, 128, "cpu", False)  # construct: srt/mem_cache/memory_pool.py ReqToTokenPool
    MLATokenToKVPool(8, 1, x, 512, 64, 2, "cpu", False, use_nsa=False)  # construct: srt/mem_cache/memory_pool.py MLATokenToKVPool
    Req("1", "text", [1], x, origin_input_ids_unpadded=[1])  # construct: srt/managers/schedule_batch.py Req
    PPProxyTensors({})  # construct: srt/model_executor/forward_batch_info.py PPProxyTensors
    GroupCoordinator([[0]], 0, "gloo", False, use_pymscclpp=False)  # construct: srt/distributed/parallel_state.py GroupCoordinator
