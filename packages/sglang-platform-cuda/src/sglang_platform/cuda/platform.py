"""The platforms for NVIDIA GPUs.

They keep the identity CUDA, so that the host loses none of its own features for these devices. The parts this
package does not bring (None: "no opinion") stay the host's own.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sglang_platform.core import DeviceCapability, MMPlatform, PlatformCapabilities, SRTPlatform
from sglang_platform.cuda.device import CudaDeviceMixin

if TYPE_CHECKING:
    import torch

__all__ = ["CudaMMPlatform", "CudaSRTPlatform"]

_COMMUNICATORS = "sglang.multimodal_gen.runtime.distributed.device_communicators"

FIRST_WITH_FP8 = DeviceCapability(8, 9)
"""Ada; its tensor cores are the first that multiply e4m3 and e5m2 (CUDA programming guide, compute
capabilities)."""


class CudaSRTPlatform(SRTPlatform, CudaDeviceMixin):
    """The LLM runtime on NVIDIA GPUs."""

    supported_kv_dtypes = ("bfloat16", "float16", "float8_e4m3fn")
    supported_page_sizes = (1, 16, 32, 64)

    @cached_property
    def capabilities(self) -> PlatformCapabilities:
        """All that the host builds for CUDA, and fp8 where every GPU of the machine has it.

        NVML is asked, which leaves CUDA alone; only where it is missing torch is, which initialises CUDA.
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
        from sglang_platform.cuda.probe import compute_capabilities

        found = compute_capabilities()
        if not found:
            import torch

            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            found = [torch.cuda.get_device_capability(index) for index in range(count)]
        return bool(found) and min(found) >= FIRST_WITH_FP8

    def get_default_attention_backend(self) -> str:
        """No opinion: the host knows its own backends for each NVIDIA generation best."""
        raise NotImplementedError("on CUDA the host chooses among its own attention backends")

    def get_dispatch_key_name(self) -> str:
        """The host's CUDA operators."""
        return "cuda"

    def get_group_coordinator_device(self, local_rank: int) -> torch.device:
        """The GPU of this rank."""
        return self.get_device(local_rank)


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
