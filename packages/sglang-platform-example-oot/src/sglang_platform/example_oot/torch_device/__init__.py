"""The device under torch: `torch.device("example_oot")`, with memory, streams, events and graphs of its own.

A vendor changes: `register`, which builds and loads `csrc/`. Where a torch plugin brings the device, the folder goes.
"""

from __future__ import annotations

import atexit
import os
import sys

from sglang_platform.core.errors import ConfigurationError

from sglang_platform.example_oot.device_type import NAME

__all__ = ["register"]

# Imports inside functions: they import torch, or lead to it.


def register() -> str:
    """Register the device with torch; returns its type.

    Falls back to `"cpu"`, with a message on stderr, where the C++ extension cannot be built or
    SGLANG_EXAMPLE_OOT_DEVICE=cpu is set. The fallback uses host memory and CPU streams, and replays a recorded list of
    operators as the graph. Raises ConfigurationError for invalid settings.
    """
    from sglang_platform.example_oot.kernels import library

    wish = os.environ.get("SGLANG_EXAMPLE_OOT_DEVICE", NAME)
    if wish not in ("cpu", NAME):
        raise ConfigurationError(
            f"SGLANG_EXAMPLE_OOT_DEVICE={wish!r} is not understood",
            fix=f"set it to cpu or {NAME}, or leave it unset",
        )
    if wish == "cpu":
        return "cpu"
    if library.backend() != "native":
        print(
            f"sglang-platform-example-oot: without its C++ part there is no device {NAME!r}; serving on 'cpu'",
            file=sys.stderr,
            flush=True,
        )
        return "cpu"
    import torch

    from sglang_platform.example_oot import machine
    from sglang_platform.example_oot.torch_device import module, protocols

    # One device per rank of a tensor-parallel group; all share the machine, so the limit holds for each.
    devices = machine.positive("SGLANG_EXAMPLE_OOT_DEVICES", os.cpu_count() or 1)
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    torch.ops.sglang_example_oot._open_device(devices, machine.memory_limit(), machine.cores())
    protocols.register()
    atexit.register(module.finish)
    return NAME
