"""Methods of SGLang that methods of a plugin stand in for, written as some release has them."""
# ruff: noqa
# fmt: off

from sglang.srt.disaggregation.base.conn import BaseKVReceiver, BaseKVSender
from sglang.srt.distributed.parallel_state import GroupCoordinator
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import RadixAttention
from sglang.srt.layers.sampler import Sampler
from sglang.srt.lora.lora_manager import LoRAManager
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.mem_cache.memory_pool import HybridLinearKVPool, KVCache, MHATokenToKVPool, MLATokenToKVPool
from sglang.srt.mem_cache.radix_cache import RadixCache
from sglang.srt.platforms.device_mixin import DeviceMixin
from sglang.srt.platforms.interface import SRTPlatform


class Device(DeviceMixin):  # base: srt/platforms/device_mixin.py DeviceMixin
    def get_device(self, local_rank):  # override: srt/platforms/device_mixin.py DeviceMixin.get_device
        return local_rank

    def get_device_name(self, device_id=0):  # override: srt/platforms/device_mixin.py DeviceMixin.get_device_name
        return "x"

    def set_device(self, device):  # override: srt/platforms/device_mixin.py DeviceMixin.set_device
        pass


class Platform(SRTPlatform):  # base: srt/platforms/interface.py SRTPlatform;srt/platforms/device_mixin.py DeviceMixin
    def get_mha_kv_pool_cls(self):  # override: srt/platforms/interface.py SRTPlatform.get_mha_kv_pool_cls
        return Pool

    def get_nsa_kv_pool_cls(self):  # override: srt/platforms/interface.py SRTPlatform.get_nsa_kv_pool_cls
        raise NotImplementedError

    def supports_fp8(self):  # override: srt/platforms/interface.py SRTPlatform.supports_fp8
        return True

    def support_cuda_graph(self):  # override: srt/platforms/interface.py SRTPlatform.support_cuda_graph
        return True

    def is_pin_memory_available(self):  # override: srt/platforms/interface.py|srt/platforms/device_mixin.py SRTPlatform.is_pin_memory_available|DeviceMixin.is_pin_memory_available
        return False

    def get_default_attention_backend(self):  # override: srt/platforms/interface.py SRTPlatform.get_default_attention_backend
        return "probe"

    def get_compile_backend(self, mode=None):  # override: srt/platforms/interface.py SRTPlatform.get_compile_backend
        return "eager"


class Pool(MHATokenToKVPool):  # base: srt/mem_cache/memory_pool.py MHATokenToKVPool;srt/mem_cache/memory_pool.py KVCache
    def set_kv_buffer(self, layer, loc, cache_k, cache_v, k_scale=None, v_scale=None, layer_id_override=None):  # override: srt/mem_cache/memory_pool.py MHATokenToKVPool.set_kv_buffer
        pass

    def get_cpu_copy(self, indices):  # override: srt/mem_cache/memory_pool.py MHATokenToKVPool.get_cpu_copy
        return []

    def load_cpu_copy(self, kv_cache_cpu, indices, mamba_indices=None):  # override: srt/mem_cache/memory_pool.py MHATokenToKVPool.load_cpu_copy
        pass

    def get_key_buffer(self, layer_id):  # override: srt/mem_cache/memory_pool.py MHATokenToKVPool.get_key_buffer
        pass


class Latent(MLATokenToKVPool):  # base: srt/mem_cache/memory_pool.py MLATokenToKVPool;srt/mem_cache/memory_pool.py KVCache
    def set_kv_buffer(self, layer, loc, cache_k, cache_v):  # override: srt/mem_cache/memory_pool.py MLATokenToKVPool.set_kv_buffer
        pass

    def set_mla_kv_buffer(self, layer, loc, cache_k_nope, cache_k_rope):  # override: srt/mem_cache/memory_pool.py MLATokenToKVPool.set_mla_kv_buffer
        pass


class Hybrid(HybridLinearKVPool):  # base: srt/mem_cache/memory_pool.py HybridLinearKVPool;srt/mem_cache/memory_pool.py KVCache
    def get_key_buffer(self, layer_id):  # override: srt/mem_cache/memory_pool.py HybridLinearKVPool.get_key_buffer
        pass

    def get_index_k_continuous(self, layer_id, seq_len, page_indices):  # override: srt/mem_cache/memory_pool.py HybridLinearKVPool.get_index_k_continuous
        pass


class Attention(AttentionBackend):  # base: srt/layers/attention/base_attn_backend.py AttentionBackend
    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):  # override: srt/layers/attention/base_attn_backend.py AttentionBackend.forward_decode
        pass

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):  # override: srt/layers/attention/base_attn_backend.py AttentionBackend.forward_extend
        pass

    def init_forward_metadata(self, forward_batch):  # override: srt/layers/attention/base_attn_backend.py AttentionBackend.init_forward_metadata
        pass

    def init_forward_metadata_capture_cuda_graph(self, bs, num_tokens, req_pool_indices, seq_lens, encoder_lens, forward_mode, spec_info):  # override: srt/layers/attention/base_attn_backend.py AttentionBackend.init_forward_metadata_capture_cuda_graph
        pass

    def init_forward_metadata_replay_cuda_graph(self, bs, req_pool_indices, seq_lens, seq_lens_sum, encoder_lens, forward_mode, spec_info, seq_lens_cpu):  # override: srt/layers/attention/base_attn_backend.py AttentionBackend.init_forward_metadata_replay_cuda_graph
        pass

    def get_verify_buffers_to_fill_after_draft(self):  # override: srt/layers/attention/base_attn_backend.py AttentionBackend.get_verify_buffers_to_fill_after_draft
        return [None, None]


class Layer(RadixAttention):  # base: srt/layers/radix_attention.py RadixAttention
    def forward(self, q, k, v, forward_batch, save_kv_cache=True, **kwargs):  # override: srt/layers/radix_attention.py RadixAttention.forward
        pass


class Group(GroupCoordinator):  # base: srt/distributed/parallel_state.py GroupCoordinator
    def recv_object(self, src):  # override: srt/distributed/parallel_state.py GroupCoordinator.recv_object
        pass

    def all_gatherv(self, input_, sizes=None):  # override: srt/distributed/parallel_state.py GroupCoordinator.all_gatherv
        pass

    def barrier(self):  # override: srt/distributed/parallel_state.py GroupCoordinator.barrier
        pass


class Sampling(Sampler):  # base: srt/layers/sampler.py Sampler
    def forward(self, logits_output, sampling_info, return_logprob, top_logprobs_nums, token_ids_logprobs, positions):  # override: srt/layers/sampler.py Sampler.forward
        pass

    def compute_logprobs_only(self, logits_output, sampling_info, return_logprob, top_logprobs_nums, token_ids_logprobs):  # override: srt/layers/sampler.py Sampler.compute_logprobs_only
        pass


class Adapters(LoRAManager):  # base: srt/lora/lora_manager.py LoRAManager
    def set_lora_module(self, module_name, module):  # override: srt/lora/lora_manager.py LoRAManager.set_lora_module
        pass

    def init_cuda_graph_batch_info(self, max_bs_in_cuda_graph, num_tokens_per_bs):  # override: srt/lora/lora_manager.py LoRAManager.init_cuda_graph_batch_info
        pass


class Worker(TpModelWorker):  # base: srt/managers/tp_worker.py TpModelWorker;srt/managers/tp_worker.py BaseTpWorker
    def forward_batch_generation(self, batch, forward_batch=None, pp_proxy_tensors=None, is_verify=False, skip_attn_backend_init=False):  # override: srt/managers/tp_worker.py TpModelWorker.forward_batch_generation
        pass


class Sender(BaseKVSender):  # base: srt/disaggregation/base/conn.py BaseKVSender
    def send(self, kv_indices, state_indices=None):  # override: srt/disaggregation/base/conn.py BaseKVSender.send
        pass


class Receiver(BaseKVReceiver):  # base: srt/disaggregation/base/conn.py BaseKVReceiver
    def send_metadata(self, kv_indices, aux_index=None, state_indices=None, decode_prefix_len=None):  # override: srt/disaggregation/base/conn.py BaseKVReceiver.send_metadata
        pass


class Cache(RadixCache):  # base: srt/mem_cache/radix_cache.py RadixCache;srt/mem_cache/base_prefix_cache.py BasePrefixCache
    def cache_finished_req(self, req, is_insert=True):  # override: srt/mem_cache/radix_cache.py RadixCache.cache_finished_req
        pass

    def evict(self, params):  # override: srt/mem_cache/radix_cache.py RadixCache.evict
        pass
