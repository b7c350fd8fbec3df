"""The host half of a piecewise backend: when SGLang allows a capture, on which stream, and the operators that it lacks
off CUDA.

Read from SGLang 0.5.11 to 0.5.21: `compilation/cuda_piecewise_backend.py`, `compilation/weak_ref_tensor.py`,
`utils/common.py` (`direct_register_custom_op`), and the module of `facts().compile_phase`.
"""

from __future__ import annotations

import copy
import functools
import importlib
import sys
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.device.stubs import AbsentModule
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.versions import facts

__all__ = ["HostPieces", "only_on_request", "prepare", "register_hooks"]


class HostPieces:
    """The methods of `PiecewiseBackend` that depend on the host. Mixed in by re-basing; `self` is a
    `PiecewiseBackend`."""

    is_last: bool
    compiler: Any
    stream: Any
    _saved: bool = False

    def may_capture(self) -> bool:
        """False while the host only compiles, and while it serves: a piece that is recompiled then has no capture
        stream."""
        if self.is_last and not self._saved:  # every piece has been compiled for the general shape
            self._saved = True
            self.compiler.compiler_manager.save_to_file()
        module, compiling = facts().compile_phase.split(":")
        phase = importlib.import_module(module)
        self.stream = phase.get_pcg_capture_stream()
        return self.stream is not None and not getattr(phase, compiling)()


def only_on_request(server_args: Any) -> None:
    """Use piecewise prefill only if the operator asks for it (`--cuda-graph-backend-prefill tc_piecewise`, or
    `--enforce-piecewise-cuda-graph` on older hosts) or the platform's defaults do.

    SGLang makes it the default of every out-of-tree device that supports it. But `torch.compile` must trace the whole
    model, and off CUDA tracing fails in SGLang's own code for expert and latent-attention models (0.5.20,
    `utils/common.py:227`), which ends the launch.
    """
    if not facts().asks_piecewise_backend:
        return
    if facts().pieces_argument == "disable_piecewise_cuda_graph":  # an explicit argument overrides it
        server_args.disable_piecewise_cuda_graph = True
        return
    chosen = ("prefill", "backend") in getattr(server_args, "_cuda_graph_config_locked", ())
    config = getattr(server_args, "cuda_graph_config", None)  # not set yet: no default was applied
    if config is not None and not chosen and config.prefill.backend == "tc_piecewise":
        config = copy.deepcopy(config)
        config.prefill.backend = "disabled"
        server_args.cuda_graph_config = config


def register_hooks(platform: Any) -> None:
    """Prepare each worker of an out-of-tree device that is not CUDA to torch."""
    if platform.device_type == "cuda":
        return

    def prepared(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
        platform._operators_of_cuda = prepare(platform.device_type)

    # The host registers its operators before it loads plugins, so all of them exist once a model is loaded.
    required(
        "sglang.srt.model_executor.model_runner:ModelRunner.load_model", prepared, HookType.AFTER,
        without="prefill in compiled pieces finds operators of CUDA alone",
    )  # fmt: skip


def prepare(device_type: str) -> Any:
    """Register the host's CUDA-only operators for this device type; keep the returned library, or torch unregisters
    them.

    SGLang cuts the model at its own operators, Python functions that it registers for CUDA only. It also imports a
    module of its CUDA backend (`facts().weak_references`) on every device, which fails off CUDA: a stub replaces it.
    """
    import torch

    absent = facts().weak_references
    sys.modules.setdefault(absent, AbsentModule(absent))
    library = torch.library.Library("sglang", "FRAGMENT")
    key = torch._C._dispatch_key_for_device(device_type)
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
        if name.startswith("sglang::") and not torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
            library.impl(name.partition("::")[2], _as_on_cuda(name), key)
    return library


def _as_on_cuda(name: str) -> Any:
    import torch

    packet, _, overload = name.removeprefix("sglang::").partition(".")
    operator = getattr(getattr(torch.ops.sglang, packet), overload or "default")
    cuda = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    return functools.partial(operator.redispatch, cuda)
