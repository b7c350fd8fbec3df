"""Results of SGLang's functions that a plugin takes apart."""
# ruff: noqa
# fmt: off

from sglang.srt.disaggregation.utils import MetadataBuffers
from sglang.srt.entrypoints.engine import Engine
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
from sglang.srt.layers.dp_attention import compute_dp_attention_world_info
from sglang.srt.layers.moe.topk import _post_process_topk_ids, fused_topk_torch_native
from sglang.srt.layers.sampler import Sampler
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, unwrap_write_loc
from sglang.srt.mem_cache.radix_cache import RadixCache
from sglang.srt.speculative.eagle_worker import EAGLEWorker
from sglang.srt.speculative.spec_utils import generate_token_bitmask


def take(pool: MHATokenToKVPool, attention: TritonAttnBackend, scheduler: Scheduler, worker: TpModelWorker, sampler: Sampler, eagle: EAGLEWorker, buffers: MetadataBuffers, cache: RadixCache, x):
    loc, mask = unwrap_write_loc(x)  # unpack: srt/mem_cache/memory_pool.py unwrap_write_loc
    rank, size, dp = compute_dp_attention_world_info(True, 0, 1, 1)  # unpack: srt/layers/dp_attention.py compute_dp_attention_world_info
    ids, weights = _post_process_topk_ids(x, x, x)  # unpack: srt/layers/moe/topk.py _post_process_topk_ids
    values, indices = fused_topk_torch_native(x, x, 2, True)  # unpack: srt/layers/moe/topk.py fused_topk_torch_native
    a, b, c, d, e = Engine._launch_subprocesses(x)  # unpack: srt/entrypoints/engine.py Engine._launch_subprocesses
    k, v = pool.get_kv_size_bytes()  # unpack: srt/mem_cache/memory_pool.py MHATokenToKVPool.get_kv_size_bytes
    ptrs, lens, items = pool.get_contiguous_buf_infos()  # unpack: srt/mem_cache/memory_pool.py MHATokenToKVPool.get_contiguous_buf_infos
    one, two, three = attention._update_decode_kv_buffers(x, x, x)  # unpack: srt/layers/attention/triton_backend.py TritonAttnBackend._update_decode_kv_buffers
    one, two, three, four = eagle.verify(x)  # unpack: srt/speculative/eagle_worker.py EAGLEWorker.verify
    length, node = cache._insert_helper(x, x, x)  # unpack: srt/mem_cache/radix_cache.py RadixCache._insert_helper
    out, more = worker.forward_batch_embedding(x)  # unpack: srt/managers/tp_worker.py TpModelWorker.forward_batch_embedding
    total, part = buffers.get_kv_checksum(0)  # unpack: srt/disaggregation/utils.py MetadataBuffers.get_kv_checksum
    ids, more = sampler._sample_from_probs(x, x, x, x)  # unpack: srt/layers/sampler.py Sampler._sample_from_probs
    mask, backend = generate_token_bitmask(x, x, x, x, x, x)  # unpack: srt/speculative/spec_utils.py generate_token_bitmask
    batch, reason = scheduler._get_new_batch_prefill_raw(x)  # unpack: srt/managers/scheduler.py Scheduler._get_new_batch_prefill_raw
