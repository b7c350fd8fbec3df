"""A stand-in for `torch_basalt` on machines without the driver, as on a laptop or in CI."""

import importlib.util
import sys
import types


def install():
    if "torch_basalt" in sys.modules or importlib.util.find_spec("torch_basalt") is not None:
        return
    library = types.ModuleType("torch_basalt")
    library.device_count = lambda: 1
    library.mem_get_info = lambda index=0: (8 << 30, 16 << 30)
    runtime = types.ModuleType("torch_basalt.runtime")
    runtime.RuntimeMixin = type("RuntimeMixin", (), {"runtime_version": lambda self: "mock"})
    library.runtime = runtime
    sys.modules["torch_basalt"] = library
    sys.modules["torch_basalt.runtime"] = runtime
    sys.modules.setdefault("basalt_ops", types.ModuleType("basalt_ops"))
