"""The platforms for AMD GPUs.

They keep the identity ROCM, so that the host loses none of its own features for these devices. The parts this
package does not bring (None: "no opinion") stay the host's own.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sglang_platform.core import MMPlatform, PlatformCapabilities, SRTPlatform
from sglang_platform.rocm.device import RocmDeviceMixin

if TYPE_CHECKING:
    import torch

__all__ = ["RocmMMPlatform", "RocmSRTPlatform"]

_COMMUNICATORS = "sglang.multimodal_gen.runtime.distributed.device_communicators"

FP8_ARCHITECTURES = ("gfx942", "gfx950", "gfx12")
"""CDNA3 (in the fnuz encodings), CDNA4 and RDNA4 (in the OCP ones): the matrix cores that take 8-bit
floats."""


class RocmSRTPlatform(SRTPlatform, RocmDeviceMixin):
    """The LLM runtime on AMD GPUs."""

    supported_kv_dtypes = ("bfloat16", "float16", "float8_e4m3fnuz", "float8_e4m3fn")
    supported_page_sizes = (1, 16, 32, 64)

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

    def get_default_attention_backend(self) -> str:
        """No opinion: the host knows its own backends for each AMD generation best."""
        raise NotImplementedError("on ROCm the host chooses among its own attention backends")

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
