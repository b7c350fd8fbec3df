"""Classes of SGLang that classes of a plugin stand on."""
# ruff: noqa
# fmt: off

from sglang.srt.disaggregation.base.conn import BaseKVReceiver, BaseKVSender
from sglang.srt.layers.activation import ReLU2, SiluAndMul
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.layernorm import RMSNorm
from sglang.srt.layers.moe.topk import TopK
from sglang.srt.layers.quantization.base_config import QuantizationConfig
from sglang.srt.layers.quantization.unquant import UnquantizedFusedMoEMethod
from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding
from sglang.srt.managers.io_struct import BaseReq, BatchTokenIDOutput
from sglang.srt.managers.schedule_batch import MultimodalDataItem
from sglang.srt.mem_cache.base_prefix_cache import BasePrefixCache
from sglang.srt.mem_cache.memory_pool_host import HostTensorAllocator
from sglang.srt.mem_cache.radix_cache import RadixCache
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.platforms.interface import SRTPlatform
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.speculative.eagle_info import EagleDraftInput, EagleVerifyInput


class Cache(RadixCache):  # base: srt/mem_cache/radix_cache.py RadixCache;srt/mem_cache/base_prefix_cache.py BasePrefixCache
    pass


class Prefixes(BasePrefixCache):  # base: srt/mem_cache/base_prefix_cache.py BasePrefixCache
    pass


class Attention(AttentionBackend):  # base: srt/layers/attention/base_attn_backend.py AttentionBackend
    pass


class Platform(SRTPlatform):  # base: srt/platforms/interface.py SRTPlatform;srt/platforms/device_mixin.py DeviceMixin
    pass


class Item(MultimodalDataItem):  # base: srt/managers/schedule_batch.py MultimodalDataItem
    pass


class Parameters(SamplingParams):  # base: srt/sampling/sampling_params.py SamplingParams
    pass


class Experts(UnquantizedFusedMoEMethod):  # base: srt/layers/quantization/unquant.py UnquantizedFusedMoEMethod
    pass


class Routing(TopK):  # base: srt/layers/moe/topk.py TopK
    pass


class Activation(SiluAndMul):  # base: srt/layers/activation.py SiluAndMul
    pass


class Squared(ReLU2):  # base: srt/layers/activation.py ReLU2
    pass


class Norm(RMSNorm):  # base: srt/layers/layernorm.py RMSNorm
    pass


class Rotary(RotaryEmbedding):  # base: srt/layers/rotary_embedding/base.py RotaryEmbedding
    pass


class Verify(EagleVerifyInput):  # base: srt/speculative/eagle_info.py EagleVerifyInput
    pass


class Draft(EagleDraftInput):  # base: srt/speculative/eagle_info.py EagleDraftInput
    pass


class Request(BaseReq):  # base: srt/managers/io_struct.py BaseReq
    pass


class Output(BatchTokenIDOutput):  # base: srt/managers/io_struct.py BatchTokenIDOutput
    pass


class Pinned(HostTensorAllocator):  # base: srt/mem_cache/memory_pool_host.py HostTensorAllocator
    pass


class Runner(ModelRunner):  # base: srt/model_executor/model_runner.py ModelRunner
    pass


class Quantised(QuantizationConfig):  # base: srt/layers/quantization/base_config.py QuantizationConfig
    pass


class Sender(BaseKVSender):  # base: srt/disaggregation/base/conn.py BaseKVSender
    pass


class Receiver(BaseKVReceiver):  # base: srt/disaggregation/base/conn.py BaseKVReceiver
    pass
