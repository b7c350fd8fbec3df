"""Imported names. Nothing here is ever run: the releases that these names are of are different ones."""
# ruff: noqa
# fmt: off

from sglang.srt.mem_cache.memory_pool import NSATokenToKVPool  # import: srt/mem_cache/memory_pool.py NSATokenToKVPool
from sglang.srt.mem_cache.allocator import PagedTokenToKVPoolAllocator  # import: srt/mem_cache/allocator.py PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.common import alloc_token_slots  # import: srt/mem_cache/common.py alloc_token_slots
from sglang.srt.mem_cache.common import get_last_loc  # import: srt/mem_cache/common.py get_last_loc
from sglang.srt.mem_cache.common import write_cache_indices  # import: srt/mem_cache/common.py write_cache_indices
from sglang.srt.managers.schedule_batch import ModelWorkerBatch  # import: srt/managers/schedule_batch.py ModelWorkerBatch
from sglang.srt.managers.schedule_batch import Modality  # import: srt/managers/schedule_batch.py Modality
from sglang.srt.managers.schedule_batch import ScheduleBatch  # import: srt/managers/schedule_batch.py ScheduleBatch
from sglang.srt.managers.scheduler import IdleSleeper  # import: srt/managers/scheduler.py IdleSleeper
from sglang.srt.managers.scheduler import Scheduler  # import: srt/managers/scheduler.py Scheduler
from sglang.srt.layers.dp_attention import get_attention_tp_size  # import: srt/layers/dp_attention.py get_attention_tp_size
from sglang.srt.layers.dp_attention import get_attention_dp_rank  # import: srt/layers/dp_attention.py get_attention_dp_rank
from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner  # import: srt/model_executor/cuda_graph_runner.py CudaGraphRunner
from sglang.srt.model_executor.model_runner import RankZeroFilter  # import: srt/model_executor/model_runner.py RankZeroFilter
from sglang.srt.model_executor.model_runner import add_mla_attention_backend  # import: srt/model_executor/model_runner.py add_mla_attention_backend
from sglang.srt.model_executor.forward_batch_info import compute_position_triton  # import: srt/model_executor/forward_batch_info.py compute_position_triton
from sglang.srt.model_executor.forward_batch_info import ForwardMode  # import: srt/model_executor/forward_batch_info.py ForwardMode
from sglang.srt.layers.utils.multi_platform import MultiPlatformOp  # import: srt/layers/utils/multi_platform.py MultiPlatformOp
from sglang.srt.layers.radix_attention import unified_attention_with_output  # import: srt/layers/radix_attention.py unified_attention_with_output
from sglang.srt.layers.radix_attention import RadixAttention  # import: srt/layers/radix_attention.py RadixAttention
from sglang.srt.utils import is_fa3_default_architecture  # import: srt/utils/__init__.py is_fa3_default_architecture
from sglang.srt.utils import get_device_count  # import: srt/utils/__init__.py get_device_count
from sglang.srt.utils.common import get_physical_device_id  # import: srt/utils/common.py get_physical_device_id
from sglang.srt.speculative.eagle_worker import EAGLEWorker  # import: srt/speculative/eagle_worker.py EAGLEWorker
from sglang.srt.distributed.parallel_state import ensure_model_parallel_initialized  # import: srt/distributed/parallel_state.py ensure_model_parallel_initialized
from sglang.srt.distributed.parallel_state import get_tp_group  # import: srt/distributed/parallel_state.py get_tp_group
from sglang.srt.layers.quantization.base_config import QuantizationConfig  # import: srt/layers/quantization/base_config.py QuantizationConfig
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend  # import: srt/layers/attention/base_attn_backend.py AttentionBackend
from sglang.srt.layers.attention.attention_registry import create_nsa_backend  # import: srt/layers/attention/attention_registry.py create_nsa_backend
from sglang.srt.platforms import current_platform  # import: srt/platforms/__init__.py current_platform
