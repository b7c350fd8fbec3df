"""The platforms for NVIDIA GPUs.

They keep the identity CUDA, so that the host loses none of its own features for these devices. In a host, `RULES` says
which of the parts below serve; `SGLANG_PLATFORM_PARTS` overrides it.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import ClassVar

from sglang_platform.core import DeviceCapability, MMPlatform
from sglang_platform.core.contract.capabilities import PlatformCapabilities
from sglang_platform.core.portable.parts import Choice, HostIfImportable, OwnPools, Rule
from sglang_platform.core.portable.torch.platform import TorchSRTPlatform
from sglang_platform.cuda import probe
from sglang_platform.cuda.device import CudaDeviceMixin

__all__ = ["CudaMMPlatform", "CudaSRTPlatform"]

_COMMUNICATORS = "sglang.multimodal_gen.runtime.distributed.device_communicators"

FIRST_WITH_FP8 = DeviceCapability(8, 9)
"""Ada; its tensor cores are the first that multiply e4m3 and e5m2 (CUDA programming guide, compute
capabilities)."""


ATTENTION_BACKEND = "sglang_platform_cuda"

EIGHT_BIT = ("float8_e4m3fn", "float8_e5m2")
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
    "ops": HostIfImportable(("sgl_kernel",)),
    "graph_runner": Choice(
        False, "the host's runner also captures speculative decoding, adapters and data parallelism"
    ),
    "communicator": Choice(False, "the host adds custom all-reduce kernels to NCCL"),
}
"""For each part, whether this package or SGLang serves it, unless `SGLANG_PLATFORM_PARTS` says otherwise."""


class CudaSRTPlatform(TorchSRTPlatform, CudaDeviceMixin):
    """The LLM runtime on NVIDIA GPUs."""

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
    kernels = ("sglang_platform.cuda.kernels.declared:KERNELS",)
    _rules = RULES
    _attention_backend = ATTENTION_BACKEND
    _decode_tables = Path(__file__).parent / "kernels" / "tuning"
    _own_parts: ClassVar[dict[str, str]] = {
        "attention": "sglang_platform.cuda.attention.backend:CudaAttentionBackend",
        "kv_pools": "sglang_platform.cuda.kv_pools:POOLS",
        "allocator": "sglang_platform.cuda.allocator:CudaPagedAllocator",
        "graph_runner": "sglang_platform.cuda.graph_runner:CudaGraphRunner",
        "register_ops": "sglang_platform.cuda.ops:register",
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
        """Query NVML, which does not initialise CUDA; fall back to torch, which does."""
        found = probe.compute_capabilities()
        if not found:
            import torch

            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            found = [torch.cuda.get_device_capability(index) for index in range(count)]
        return bool(found) and min(found) >= FIRST_WITH_FP8

    def get_dispatch_key_name(self) -> str:
        """The host's CUDA operators."""
        return "cuda"


class CudaMMPlatform(MMPlatform, CudaDeviceMixin):
    """The diffusion runtime on NVIDIA GPUs."""

    dispatch_key = "CUDA"

    def get_dispatch_key_name(self) -> str:
        """The host's CUDA operators."""
        return "cuda"

    def get_device_communicator_cls(self) -> str:
        """The host's communicator over NCCL."""
        return f"{_COMMUNICATORS}.cuda_communicator.CudaCommunicator"

    def device_shares_host_memory(self) -> bool:
        """True on integrated parts (Jetson, GB10)."""
        import torch

        if not torch.cuda.is_available():
            return False
        return bool(torch.cuda.get_device_properties(torch.cuda.current_device()).is_integrated)
