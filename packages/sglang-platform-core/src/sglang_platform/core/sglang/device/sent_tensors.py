"""Tensors of the device in SGLang's messages: weights from a trainer, multimodal inputs, offloaded layers.

SGLang sends them through the process pickler (`MultiprocessingSerializer`), and serves CUDA alone: its reduction, in
force after the first weight update, takes every tensor for one of CUDA, those of the CPU too (IndexError); and its
reader, which knows the harmless names, refuses all others.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["install", "register_hooks"]

# Imports inside functions: they import torch, and hooks are listed without.

_OURS = ("sglang_platform.core.portable.torch.sent_storages", "rebuild_storage")
_LOST = "tensors of the device cannot be sent to another process, as in an update of the weights"


def install(platform: Any) -> None:
    """Send storages of the device by value from this process. Called when SGLang gets its platform; idempotent."""
    if not _served_by_torch(platform):
        from sglang_platform.core.portable.torch.sent_storages import send_by_value

        send_by_value()


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register for out-of-tree devices whose torch type is not `cuda`."""
    if _served_by_torch(platform):
        return
    soft(
        "sglang.srt.utils.patch_torch:_reduce_tensor_modified",
        _as_torch_reduces,
        HookType.AROUND,
        without=_LOST,
    )
    soft("sglang.srt.utils.common:SafeUnpickler.find_class", _know_ours, HookType.AROUND, without=_LOST)


def _served_by_torch(platform: Any) -> bool:
    return platform.device_type == "cuda" or not platform.is_out_of_tree()


def _as_torch_reduces(original: Any, *args: Any, **kwargs: Any) -> Any:
    if args[0].is_cuda:
        return original(*args, **kwargs)
    from torch.multiprocessing import reductions

    return reductions._reduce_tensor_original(*args, **kwargs)


def _know_ours(original: Any, unpickler: Any, module: str, name: str) -> Any:
    if (module, name) == _OURS:
        from sglang_platform.core.portable.torch.sent_storages import rebuild_storage

        return rebuild_storage
    return original(unpickler, module, name)
