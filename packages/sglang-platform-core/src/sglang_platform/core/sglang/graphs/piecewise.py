"""The host half of a piecewise backend: when SGLang allows a capture, on which stream, and what it lacks off CUDA.

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
    """What `PiecewiseBackend` leaves to the host. Mixed in by re-basing; `self` is a `PiecewiseBackend`."""

    is_last: bool
    compiler: Any
    stream: Any
    _saved: bool = False

    def may_capture(self) -> bool:
        """No while the host only compiles, and none while it serves: a piece compiled anew then has no stream."""
        if self.is_last and not self._saved:  # every piece has been compiled for the general shape
            self._saved = True
            self.compiler.compiler_manager.save_to_file()
        module, compiling = facts().compile_phase.split(":")
        phase = importlib.import_module(module)
        self.stream = phase.get_pcg_capture_stream()
        return self.stream is not None and not getattr(phase, compiling)()


def only_on_request(server_args: Any) -> None:
    """Prefill in pieces where the operator asks for it (`--cuda-graph-backend-prefill tc_piecewise`, or
    `--enforce-piecewise-cuda-graph` on older hosts), or the platform's own defaults do.

    The host makes it the default of every out-of-tree device that can. But `torch.compile` must trace the whole model,
    and off CUDA it stops in the host's own code for expert and latent-attention models (0.5.20,
    `utils/common.py:227`); the host ends the launch then.
    """
    if not facts().asks_piecewise_backend:
        return
    if facts().pieces_argument == "disable_piecewise_cuda_graph":  # the operator's own argument is stronger
        server_args.disable_piecewise_cuda_graph = True
        return
    chosen = ("prefill", "backend") in getattr(server_args, "_cuda_graph_config_locked", ())
    config = getattr(server_args, "cuda_graph_config", None)  # not there yet: nothing was made a default
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

    # The host registers its operators before a plugin is loaded; when a model is, they are all there.
    required(
        "sglang.srt.model_executor.model_runner:ModelRunner.load_model", prepared, HookType.AFTER,
        without="prefill in compiled pieces finds operators of CUDA alone",
    )  # fmt: skip


def prepare(device_type: str) -> Any:
    """Make the host's pieces possible on this device type; what is returned must be kept, or the operators go.

    The model is cut at operators of the host's own, Python functions that it registers for CUDA alone: here they are
    lent to the device. And a module of its CUDA backend, imported on every device, refuses to load elsewhere.
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
