"""The platforms for AMD GPUs.

They keep the identity ROCM, so that the host loses none of its own features for these devices. In a host, `RULES` says
which of the parts below serve; `SGLANG_PLATFORM_PARTS` overrides it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sglang_platform.core import MMPlatform, PlatformCapabilities, SRTPlatform
from sglang_platform.core.contract.capabilities import ATTENTION_FEATURES
from sglang_platform.core.contract.types import KVPoolKind, kv_pool_kind
from sglang_platform.core.torch_cuda.parts import HostAlways, HostIfImportable, Own, PartsRule, Rule
from sglang_platform.rocm.device import RocmDeviceMixin

if TYPE_CHECKING:
    import torch

__all__ = ["RocmMMPlatform", "RocmSRTPlatform"]

_COMMUNICATORS = "sglang.multimodal_gen.runtime.distributed.device_communicators"

FP8_ARCHITECTURES = ("gfx942", "gfx950", "gfx12")
"""CDNA3 (in the fnuz encodings), CDNA4 and RDNA4 (in the OCP ones): the matrix cores that take 8-bit
floats."""


ATTENTION_BACKEND = "sglang_platform_rocm"

RULES: dict[str, Rule] = {
    "attention": HostIfImportable(("aiter",)),
    "kv_pool": Own(
        "one launch where the host takes several: fp8 with scales, moves in all layers", beside_host=True
    ),
    "allocator": Own("one launch per step as in the host, and the free list never waits for the device"),
    "ops": HostIfImportable(("aiter", "sgl_kernel")),
    "graph_runner": HostAlways(
        "the host's runner also captures speculative decoding, adapters and data parallelism"
    ),
    "communicator": HostAlways("the host adds custom all-reduce kernels to RCCL"),
}
"""Who serves each part in a host, unless `SGLANG_PLATFORM_PARTS` says otherwise."""


class RocmSRTPlatform(SRTPlatform, RocmDeviceMixin):
    """The LLM runtime on AMD GPUs."""

    supported_kv_dtypes = (
        "bfloat16",
        "float16",
        "float32",
        "float8_e4m3fnuz",
        "float8_e4m3fn",
        "float8_e5m2fnuz",
        "float8_e5m2",
    )
    supported_page_sizes = (1, 16, 32, 64)
    supported_kv_kinds = ("mha", "mla", "dsa")
    kernels = (
        "sglang_platform.core.torch_cuda.kernels.declared_memory_and_ops:KERNELS",
        "sglang_platform.core.torch_cuda.kernels.declared_attention:KERNELS",
    )
    attention_features = ATTENTION_FEATURES - {"cross_attention", "encoder"}

    @cached_property
    def _parts(self) -> PartsRule:
        return PartsRule(self.device_name, RULES)

    @cached_property
    def capabilities(self) -> PlatformCapabilities:
        """All that the host builds for ROCm, and fp8 where every GPU of the machine has it.

        The kernel is asked for their architectures, which leaves HIP alone.
        """
        return PlatformCapabilities(
            supports_triton=True,
            graph_capture=True,
            piecewise_graph=True,
            hicache_device_kernels=True,
            supports_pynccl=True,
            fp8=self._multiplies_fp8(),
        )

    def _multiplies_fp8(self) -> bool:
        from sglang_platform.rocm.probe import gpu_architectures

        found = gpu_architectures()
        return bool(found) and all(architecture.startswith(FP8_ARCHITECTURES) for architecture in found)

    def get_attention_backends(self) -> dict[str, type]:
        """This package's backend; an operator may name it whatever the rule says."""
        from sglang_platform.rocm.attention import RocmAttentionBackend

        return {ATTENTION_BACKEND: RocmAttentionBackend}

    def get_default_attention_backend(self) -> str:
        """This package's, or NotImplementedError where the host is to choose among its own."""
        choice = self._parts.choose("attention")
        if not choice.own:
            raise NotImplementedError(f"the host chooses among its own attention backends: {choice.reason}")
        return ATTENTION_BACKEND

    def get_kv_pool_cls(self, *, kind: KVPoolKind) -> type | None:
        """This package's pool of the kind, or None where the host's own is to serve."""
        kind = kv_pool_kind(kind)
        choice = self._parts.choose("kv_pool")
        if not choice.own:
            return None
        from sglang_platform.rocm import kv_pools

        pools = kv_pools.BESIDE_HOST if choice.beside_host else kv_pools.POOLS
        return pools[kind]

    def get_paged_allocator_cls(self) -> type | None:
        """This package's paged allocator, or None where the host's own is to serve."""
        if not self._parts.own("allocator"):
            return None
        from sglang_platform.rocm.allocator import RocmPagedAllocator

        return RocmPagedAllocator

    def get_graph_runner_cls(self) -> type | None:
        """HIP graphs of decode steps, or None where the host's own runner is to serve."""
        if not self._parts.own("graph_runner"):
            return None
        from sglang_platform.rocm.graph_runner import RocmGraphRunner

        return RocmGraphRunner

    def get_piecewise_backend_cls(self) -> type | None:
        """HIP graphs of pieces of prefill, or None where the host's own are to serve: as the graph runner."""
        if not self._parts.own("graph_runner"):
            return None
        from sglang_platform.rocm.graph_runner import RocmPiecewiseBackend

        return RocmPiecewiseBackend

    def get_communicator_class(self) -> type | None:
        """RCCL through torch, or None where the host's own communicators are to serve."""
        if not self._parts.own("communicator"):
            return None
        from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

        return TorchGroupCommunicator

    def init_backend(self) -> None:
        """Registers the fused ops, where this package's are to serve."""
        if self._parts.own("ops"):
            from sglang_platform.core.torch_cuda import ops

            ops.register(self.get_dispatch_key_name())

    def get_dispatch_key_name(self) -> str:
        """The host's HIP operators."""
        return "hip"

    def get_group_coordinator_device(self, local_rank: int) -> torch.device:
        """The GPU of this rank."""
        return self.get_device(local_rank)


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
        from sglang_platform.rocm.probe import gpu_architectures

        return "gfx1151" in gpu_architectures()
