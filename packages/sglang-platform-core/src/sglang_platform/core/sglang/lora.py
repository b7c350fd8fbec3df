"""LoRA: the backend that applies adapters where SGLang's default cannot run.

SGLang's default and most of its backends are Triton kernels; `torch_native` runs on any device. It copies batch
metadata from pinned memory, which some devices do not have. In a decode graph it assumes the largest rank for every
adapter. For stacked projections this shifts the column offsets, so the products of adapters with a smaller rank are
moved to the columns where it reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.arguments.server_args import asked_for
from sglang_platform.core.sglang.registration import argument, only_for
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["choose_backend", "register_hooks", "spread"]

_TRITON = ("csgmv", "triton", "triton_v2")
_PORTABLE = "torch_native"
_FEATURE = argument("enable_lora")
_PINNING = (
    "sglang.srt.lora.lora_manager:LoRAManager.__init__",
    "sglang.srt.lora.lora_manager:LoRAManager.load_lora_adapter",
    "sglang.srt.lora.backend.torch_backend:TorchNativeLoRABackend.prepare_lora_batch",
)


def choose_backend(server_args: Any, platform: Any) -> None:
    """Use the platform's LoRA backend unless the operator named another.

    Raises LaunchRefused if the operator named a Triton backend on a device without Triton.
    """
    if platform.capabilities.supports_triton and platform.get_default_lora_backend() is None:
        return
    default = platform.get_default_lora_backend() or _PORTABLE
    asked = asked_for(server_args, "lora_backend")
    if asked in (None, _TRITON[0]):
        # If SGLang keeps no raw input, an explicit choice of its default cannot be told from the default.
        server_args.lora_backend = default
    elif asked in _TRITON and not platform.capabilities.supports_triton:
        raise LaunchRefused(
            f"--lora-backend {asked} cannot run on the platform {platform.device_name!r}",
            plugin=getattr(platform, "_plugin_origin", None),
            why="its kernels are written in Triton, and capabilities.supports_triton is False",
            fix=f"leave out --lora-backend, and {default!r} serves",
        )


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Let `torch_native` serve adapters of any rank in a graph, and disable pinning where the device cannot copy from
    pinned memory."""
    if not platform.is_out_of_tree():
        return
    if host.init_lora_of_graphs is not None:
        only_for(_FEATURE, "sglang.srt.lora.torch_ops:sgemm_lora_b_fwd", _of_its_own_rank, HookType.AROUND)
    if platform.is_pin_memory_available():
        return

    def prepare(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with _WithoutPinning():
            return original(*args, **kwargs)

    for target in _PINNING:
        only_for(_FEATURE, target, prepare, HookType.AROUND)


def _of_its_own_rank(
    original: Callable[..., Any], inputs: torch.Tensor, weights: Any, batch_info: Any, slice_offsets: Any, *rest: Any,
    **named: Any,
) -> Any:  # fmt: skip
    if batch_info.use_cuda_graph and inputs.shape[1]:
        ranks = batch_info.lora_ranks[batch_info.weight_indices[: inputs.shape[0]].long()]
        inputs = spread(inputs, ranks, len(slice_offsets) - 1)
    return original(inputs, weights, batch_info, slice_offsets, *rest, **named)


def spread(products: torch.Tensor, ranks: torch.Tensor, slices: int) -> torch.Tensor:
    """`products` [rows, slices * most] with each row's slices moved to the offsets of the largest rank, zero-padded.

    In row i the slices are packed into the first `slices * ranks[i]` columns; later columns are ignored. In the
    result, slice s begins at column `s * most`. ranks: [rows], integers from 0 to `most`, read on their device.
    """
    most = products.shape[1] // slices
    column = torch.arange(products.shape[1], device=products.device)
    number, within = column // most, column % most
    ranks = ranks.long()[:, None]
    moved = products.gather(1, (number * ranks + within).clamp(max=products.shape[1] - 1))
    return torch.where(within < ranks, moved, torch.zeros_like(moved))


class _WithoutPinning(TorchFunctionMode):  # type: ignore[misc]
    """While active, tensors are allocated in pageable memory, and `pin_memory()` does nothing."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.pin_memory:
            return args[0]
        kept = {name: value for name, value in (kwargs or {}).items() if name != "pin_memory"}
        return func(*args, **kept)
