"""The platform contract of the diffusion runtime (SGLang's `multimodal_gen`).

One device mixin serves both runtimes: ``class MyMMPlatform(MMPlatform, MyDeviceMixin)``. The host's own class
is `sglang.multimodal_gen.runtime.platforms.interface.Platform` (read in 0.5.23, the first release that
discovers outside platforms). Its names are kept; most of its class methods are instance methods here, as in
the rest of the contract, and what a `DeviceMixin` already answers is derived from it. Classes are named by
`"pkg.mod.Class"` strings, which the host resolves; without a host, `HOST_DEFAULT` stands for its own class.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from sglang_platform.core.contract.device import DeviceMixin

if TYPE_CHECKING:
    import torch

__all__ = ["HOST_DEFAULT", "MMPlatform"]

HOST_DEFAULT = "host_default"
"""Placeholder returned without a host instead of a class name: the host's own class."""

_GIB = 1 << 30


class MMPlatform(DeviceMixin):
    """A platform as the diffusion runtime sees it. Subclass it together with a device mixin, in either order.

    The host selects it through the entry-point group `sglang.multimodal_gen.platforms`, wants `_enum` OOT,
    and takes `SGLANG_DIFFUSION_PLATFORM_OVERRIDE=<name>` to choose one.
    """

    _defines_contract: ClassVar[bool] = True

    device: torch.device | None = None
    """Unused by the contract; the host's class carries it."""

    dispatch_key: str = ""
    """torch's dispatcher key for operators of this device, e.g. `"PrivateUse1"`; an out-of-tree platform sets
    it before the host registers operators for it."""

    _host_attention: str = HOST_DEFAULT
    _host_communicator: str = HOST_DEFAULT
    """The names of the host's own classes, which the host adapter fills in."""

    simple_compile_backend: str = "inductor"
    """The `torch.compile` backend for small standalone functions."""

    # Lifecycle

    def apply_server_args_defaults(self, server_args: Any) -> None:
        """Fills in this platform's defaults in the diffusion `ServerArgs`, in place, before they are
        normalised."""

    def init_backend(self) -> None:
        """Loads libraries and registers operators, once in each worker; an exception stops the launch for
        good."""

    def verify_model_arch(self, model_arch: str) -> None:
        """Raises ValueError where the model architecture cannot run on this device."""

    # Attention

    def get_attn_backend_cls_str(self, selected_backend: Any, head_size: int, dtype: torch.dtype) -> str:
        """The attention class for heads of `head_size` elements of `dtype`: `"pkg.mod.Class"`.

        The class derives from core's `DiffusionAttention`, or from the host's `AttentionBackend`.
        `selected_backend` is a member of the host's `AttentionBackendEnum`, or None for the platform's
        choice. The host's selector calls it once per combination. The default serves torch's scaled
        dot-product attention, which runs on every torch device, and raises ValueError for any other backend
        asked for by name, rather than serving a different one in silence.
        """
        name = getattr(selected_backend, "name", selected_backend)
        if name in (None, "TORCH_SDPA"):
            return self._host_attention
        raise ValueError(
            f"{type(self).__name__} (device {self.device_name!r}) has no attention backend {name}, only "
            "TORCH_SDPA: leave the backend unset, or override get_attn_backend_cls_str()."
        )

    def get_attn_backend(self, selected_backend: Any, head_size: int, dtype: torch.dtype) -> type:
        """The class that `get_attn_backend_cls_str` names, imported."""
        from pkgutil import resolve_name

        cls: type = resolve_name(self.get_attn_backend_cls_str(selected_backend, head_size, dtype))
        return cls

    # Communication

    def get_device_communicator_cls(self) -> str:
        """The class that carries a group's collectives; a subclass of the host's `DeviceCommunicatorBase`. The default
        is that base class itself, which goes through `torch.distributed`."""
        return self._host_communicator

    def get_all_to_all_communicator_cls(self) -> str:
        """The class whose `all_to_all_4D` exchanges sequence and heads in sequence parallelism.

        By default the platform's communicator. An out-of-tree platform that named none raises
        NotImplementedError, as the host's class does: it asks for every group of two or more ranks, and a default
        cannot guess the transport of a custom device. The host's own base class, which goes
        through `torch.distributed`, may be named here.
        """
        cls = self.get_device_communicator_cls()
        if cls == self._host_communicator and self.is_out_of_tree():
            raise NotImplementedError(
                f"{type(self).__name__} does not implement get_all_to_all_communicator_cls(): it must return "
                'the name ("pkg.mod.Class") of a communicator class with all_to_all_4D.'
            )
        return cls

    def supports_distributed_device_id(self) -> bool:
        """Whether `torch.distributed.init_process_group` may be given this device as `device_id`."""
        return self.is_cuda() or self.is_rocm()

    # Compilation and operators

    def get_compile_backend(self, mode: str | None = None) -> str:
        """The `torch.compile` backend for the diffusion modules; asked of out-of-tree platforms."""
        return self.simple_compile_backend

    def get_compile_options(self, module: torch.nn.Module) -> dict[str, object] | None:
        """The `options` of `torch.compile` for `module`; None leaves the host's `mode` in force."""
        return None

    def get_dispatch_key_name(self) -> str:
        """Which `forward_<key>` of the host's custom operators runs, see
        `SRTPlatform.get_dispatch_key_name`."""
        return "native"

    def get_torch_library_dispatch_key(self) -> str:
        """torch's dispatcher key under which the host registers its operators for this device."""
        if self.dispatch_key:
            return self.dispatch_key
        if self.is_out_of_tree():
            raise NotImplementedError(
                f"{type(self).__name__} does not set dispatch_key: it must name torch's dispatcher key of "
                'the device, e.g. "PrivateUse1".'
            )
        return "PrivateUse1" if self.is_npu() else "CUDA"

    def is_amp_supported(self) -> bool:
        """Whether torch knows how to autocast on this device type; the host runs its models under autocast
        then."""
        import torch

        try:
            return bool(torch.amp.is_autocast_available(self.device_type))
        except RuntimeError:  # torch does not know the device type
            return False

    def is_float64_supported(self) -> bool:
        """Whether the device computes in float64; without it the host computes its rotary tables in
        float32."""
        return True

    def get_modelopt_fp4_quantize_op(self) -> Callable[..., Any] | None:
        """The operator that quantises activations to NVFP4, or None."""
        return None

    def get_modelopt_fp4_gemm_op(self) -> tuple[Callable[..., Any] | None, str | None]:
        """The NVFP4 matrix multiplication and the name of its backend, or `(None, None)`."""
        return None, None

    def get_modelopt_flashinfer_fp4_backend(self) -> str:
        """The backend that FlashInfer's NVFP4 multiplication is asked for."""
        return "auto"

    # Models

    def optimize_vae(self, vae: torch.nn.Module) -> torch.nn.Module:
        """The VAE after this platform's changes; called once after it is loaded. The same module or another
        one."""
        return vae

    def enable_dit_layerwise_offload_by_default(self) -> bool:
        """Whether the transformer's layers move between host and device memory when the operator says
        nothing."""
        return self.device_type != "cpu"

    def device_shares_host_memory(self) -> bool:
        """Whether device and host draw on one physical memory, as on integrated parts; offloading saves
        nothing."""
        return False

    # Device, derived from the mixin

    def get_local_torch_device(self) -> torch.device:
        """The device of this worker: `get_device` of the rank on this machine (`LOCAL_RANK`)."""
        return self.get_device(_local_rank())

    def get_available_gpu_memory(
        self,
        device_id: int | None = None,
        distributed: bool = False,
        empty_cache: bool = True,
        cpu_group: Any = None,
    ) -> float:
        """Free memory in GiB (2**30 bytes) of `device_id`, None being this worker's device.

        `distributed` takes the least over the ranks of `cpu_group` (None: the default group); `empty_cache`
        first gives cached memory back.
        """
        if empty_cache:
            self.empty_cache()
        free, _ = self.get_available_memory(_local_rank() if device_id is None else device_id)
        if distributed:
            import torch

            where = self.get_local_torch_device() if cpu_group is None else torch.device("cpu")
            least = torch.tensor(free, dtype=torch.int64, device=where)
            torch.distributed.all_reduce(least, op=torch.distributed.ReduceOp.MIN, group=cpu_group)
            free = int(least.item())
        return free / _GIB

    def has_device_capability(self, capability: tuple[int, int] | int, device_id: int = 0) -> bool:
        """Whether the device's generation is at least `capability`, as `(9, 0)` or `90`; False where it has
        none."""
        own = self.get_device_capability(device_id)
        if own is None:
            return False
        if isinstance(capability, tuple):
            return own >= capability
        return own.to_int() >= capability

    def tensor_on_device(self, t: torch.Tensor) -> bool:
        """Whether `t` lives on a device of this platform."""
        return bool(t.device.type == self.device_type)

    def is_device_type(self, device_type: str | None) -> bool:
        """Whether `device_type` is this platform's."""
        return device_type == self.device_type

    def is_hip(self) -> bool:
        """The diffusion runtime's other name for `is_rocm`."""
        return self.is_rocm()

    def is_hpu(self) -> bool:
        """An Intel Gaudi device; no platform of this contract is one."""
        return False

    def is_cuda_static(self) -> bool:
        """The diffusion runtime's other name for `is_cuda`."""
        return self.is_cuda()

    def is_rocm_static(self) -> bool:
        """The diffusion runtime's other name for `is_rocm`."""
        return self.is_rocm()

    def is_hopper(self) -> bool:
        """An NVIDIA device of compute capability 9.0."""
        return self.is_cuda() and self.get_device_capability() == (9, 0)

    def is_blackwell(self) -> bool:
        """An NVIDIA device of compute capability 10.x."""
        return self._cuda_major() == 10

    def is_sm120(self) -> bool:
        """An NVIDIA device of compute capability 12.x."""
        return self._cuda_major() == 12

    def is_gfx1151(self) -> bool:
        """An AMD device of the architecture in the method's name."""
        return False

    def _cuda_major(self) -> int | None:
        capability = self.get_device_capability() if self.is_cuda() else None
        return None if capability is None else capability.major


def _local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))
