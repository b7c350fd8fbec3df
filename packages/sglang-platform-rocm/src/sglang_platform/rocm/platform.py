"""The platforms for AMD GPUs.

They keep the identity ROCM, so that the host loses none of its own features for these devices. In a host, `RULES` says
which of the parts below serve; `SGLANG_PLATFORM_PARTS` overrides it.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import ClassVar

from sglang_platform.core import MMPlatform
from sglang_platform.core.contract.capabilities import PlatformCapabilities
from sglang_platform.core.portable.parts import Choice, HostIfImportable, OwnPools, Rule
from sglang_platform.core.portable.torch.platform import TorchSRTPlatform
from sglang_platform.rocm import probe
from sglang_platform.rocm.device import RocmDeviceMixin

__all__ = ["RocmMMPlatform", "RocmSRTPlatform"]

_COMMUNICATORS = "sglang.multimodal_gen.runtime.distributed.device_communicators"

FP8_ARCHITECTURES = ("gfx942", "gfx950", "gfx12")
"""CDNA3 (in the fnuz encodings), CDNA4 and RDNA4 (in the OCP ones): the matrix cores that take 8-bit
floats."""


ATTENTION_BACKEND = "sglang_platform_rocm"

EIGHT_BIT = ("float8_e4m3fnuz", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e5m2")
"""The 8-bit element types of a KV cache."""

RULES: dict[str, Rule] = {
    "attention": Choice(
        False,
        "the host chooses by model, and its rules for page sizes, graphs, drafts and windows know its backends by name",
    ),
    "kv_pool": OwnPools(
        kinds=("mha", "mla"),
        dtypes=EIGHT_BIT,
        reason="one launch for scale, cast and store, where the host takes three to five",
        otherwise="the host stores what needs no cast in one launch too, and its sparse pools belong to its kernels",
    ),
    "allocator": Choice(
        True,
        "one launch per step as in the host; a free writes what is freed, where the host copies the whole free list",
    ),
    "ops": HostIfImportable(("aiter",), switch="SGLANG_USE_AITER"),
    "graph_runner": Choice(
        False, "the host's runner also captures speculative decoding, adapters and data parallelism"
    ),
    "communicator": Choice(False, "the host adds custom all-reduce kernels to RCCL"),
}
"""For each part, whether this package or SGLang serves it, unless `SGLANG_PLATFORM_PARTS` says otherwise."""


class RocmSRTPlatform(TorchSRTPlatform, RocmDeviceMixin):
    """The LLM runtime on AMD GPUs."""

    supported_kv_dtypes = ("bfloat16", "float16", "float32", *EIGHT_BIT)
    supported_page_sizes = (1, 16, 32, 64)
    supported_kv_kinds = ("mha", "mla", "dsa")
    attention_features = frozenset(
        {
            "chunked_prefill",
            "fp8_kv",
            "gqa",
            "logit_cap",
            "mha",
            "mixed_batch",
            "mla",
            "mqa",
            "sinks",
            "sliding_window",
            "sparse",
        }
    )
    kernels = ("sglang_platform.rocm.kernels.declared:KERNELS",)
    _rules = RULES
    _attention_backend = ATTENTION_BACKEND
    _decode_tables = Path(__file__).parent / "kernels" / "tuning"
    _own_parts: ClassVar[dict[str, str]] = {
        "attention": "sglang_platform.rocm.attention.backend:RocmAttentionBackend",
        "kv_pools": "sglang_platform.rocm.kv_pools:POOLS",
        "allocator": "sglang_platform.rocm.allocator:RocmPagedAllocator",
        "graph_runner": "sglang_platform.rocm.graph_runner:RocmGraphRunner",
        "register_ops": "sglang_platform.rocm.ops:register",
    }

    @cached_property
    def capabilities(self) -> PlatformCapabilities:  # type: ignore[override]  # read as the attribute is
        """All that the host builds for these devices, and fp8 where every GPU of the machine has it."""
        return PlatformCapabilities(
            supports_triton=True,
            graph_capture=True,
            piecewise_graph=True,
            hicache_device_kernels=True,
            supports_pynccl=True,
            fp8=self._multiplies_fp8(),
        )

    def _multiplies_fp8(self) -> bool:
        """Read the architectures from the OS kernel, without initialising HIP."""
        found = probe.gpu_architectures()
        return bool(found) and all(architecture.startswith(FP8_ARCHITECTURES) for architecture in found)

    def get_dispatch_key_name(self) -> str:
        """The host's HIP operators."""
        return "hip"


class RocmMMPlatform(MMPlatform, RocmDeviceMixin):
    """The diffusion runtime on AMD GPUs."""

    dispatch_key = "CUDA"

    def get_dispatch_key_name(self) -> str:
        """The host's HIP operators."""
        return "hip"

    def get_device_communicator_cls(self) -> str:
        """The host's communicator over RCCL, which goes by CUDA's name."""
        return f"{_COMMUNICATORS}.cuda_communicator.CudaCommunicator"

    def enable_dit_layerwise_offload_by_default(self) -> bool:
        """Off, as on the host's own ROCm platform: these devices have the memory."""
        return False

    def is_gfx1151(self) -> bool:
        """Strix Halo."""
        return "gfx1151" in probe.gpu_architectures()
