"""Prefill-decode disaggregation off CUDA: the platform's transfer engine takes the place of Mooncake's.

SGLang's managers for the transfer backend `mooncake` are device-independent. The bytes are moved by an engine object
that `MooncakeTransferEngine` (`distributed/device_communicators/mooncake_transfer_engine.py`) imports from the package
`mooncake`. While its constructor runs, we replace that package, so that it gets the platform's engine, which looks
addresses up among the buffers of this worker's KV pools. Where the prefill scheduler creates a `torch.cuda` event
(`disaggregation/prefill.py`), it gets an event of the device. In releases that may send the rows of a chunk before its
forward has ended, we synchronize the device first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.arguments.server_args import register_rule
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.memory import worker as worker_memory
from sglang_platform.core.sglang.registration import Feature, only_for
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_ENGINE = "sglang.srt.distributed.device_communicators.mooncake_transfer_engine:MooncakeTransferEngine"
_BASE = "sglang_platform.core.distributed.transfer_engine:TransferEngine"
_PREFILL = "sglang.srt.disaggregation.prefill:SchedulerDisaggregationPrefillMixin"
_CARRIED = ("mooncake", "fake")
_FEATURE = Feature(
    "--disaggregation-mode",
    lambda launch: launch.arguments is not None and launch.arguments.disaggregation_mode != "null",
)


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register for out-of-tree devices whose torch type is not `cuda`; no other transfer engine knows their memory."""
    if platform.device_type == "cuda" or not platform.is_out_of_tree():
        return
    register_rule(platform, host, lambda server_args: _refuse_other_backends(server_args, platform, host))

    def build(original: Any, wrapper: Any, *args: Any, **kwargs: Any) -> Any:
        cls = platform.get_transfer_engine_cls() or load(_BASE)
        with _lent(partial(cls, _memory_at, platform.device_type)):
            return original(wrapper, *args, **kwargs)

    only_for(_FEATURE, f"{_ENGINE}.__init__", build, HookType.AROUND)

    def with_events_of_the_device(original: Any, *args: Any, **kwargs: Any) -> Any:
        # SGLang copies indices to pinned memory for a sender that supports host tensors.
        for one in (*args, *kwargs.values()):
            sender = getattr(one, "disagg_kv_sender", None)
            if sender is not None and not platform.is_pin_memory_available():
                sender.supports_host_tensor_indices = False
        with _events_of(platform.device_type):
            return original(*args, **kwargs)

    def after_the_forward(original: Any, *args: Any, **kwargs: Any) -> Any:
        import torch  # already loaded in a worker, but not in the launcher

        torch.get_device_module(platform.device_type).synchronize()
        return original(*args, **kwargs)

    if host.races_when_it_sends_early:
        target = f"{_PREFILL}.maybe_send_cached_prefix_chunk"
        only_for(_FEATURE, target, after_the_forward, HookType.AROUND)
    for method in host.prefill_events:
        only_for(_FEATURE, f"{_PREFILL}.{method}", with_events_of_the_device, HookType.AROUND)


def _refuse_other_backends(server_args: Any, platform: Any, host: HostFacts) -> None:
    backend = server_args.disaggregation_transfer_backend
    if server_args.disaggregation_mode == "null" or backend in _CARRIED:
        return
    raise LaunchRefused(
        f"--disaggregation-transfer-backend {backend} does not know memory of the platform {platform.device_name!r}",
        plugin=getattr(platform, "_plugin_origin", None),
        why=f"SGLang {host.version} (disaggregation/{backend}/conn.py) registers memory with that library as its own "
        "devices have it",
        fix="leave it out, or give 'mooncake': the platform's transfer engine serves there, and no package is needed",
    )


@contextmanager
def _lent(engine: Any) -> Iterator[None]:
    """While active, `from mooncake.engine import TransferEngine` imports `engine`."""
    package, module = ModuleType("mooncake"), ModuleType("mooncake.engine")
    package.engine = module  # type: ignore[attr-defined]
    module.TransferEngine = engine  # type: ignore[attr-defined]
    names = {"mooncake": package, "mooncake.engine": module}
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    try:
        yield
    finally:
        for name, real in before.items():
            if real is None:
                del sys.modules[name]
            else:
                sys.modules[name] = real


@contextmanager
def _events_of(device_type: str) -> Iterator[None]:
    """While active, `torch.cuda.Event` and `torch.cuda.current_stream` are the device's.

    A torch build without CUDA cannot create CUDA's. Only this worker's scheduler uses them meanwhile.
    """
    import torch  # already loaded in a worker, but not in the launcher

    device = torch.get_device_module(device_type)
    if device is torch.cuda or not hasattr(device, "Event"):
        yield
        return
    before = torch.cuda.Event, torch.cuda.current_stream
    torch.cuda.Event, torch.cuda.current_stream = device.Event, device.current_stream
    try:
        yield
    finally:
        torch.cuda.Event, torch.cuda.current_stream = before


def _memory_at(address: int) -> Any:
    """The KV pool buffer that contains the address, or None."""
    for tensor in worker_memory.cache():
        start = tensor.data_ptr()
        if start <= address < start + tensor.nbytes and tensor.is_contiguous():
            return tensor
    return None
