"""SGLang on its own in-tree CPU device, in the same environment: what passes there passes on a platform.

SGLang's CPU device imports a package of kernels that is not on PyPI for it. With its own torch attention none of them
is called, so a stand-in whose kernels raise is enough.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

__all__ = ["OPTIONS", "environment"]

OPTIONS: dict[str, Any] = {
    "device": "cpu",
    "attention_backend": "torch_native",
    "disable_cuda_graph": True,
    "page_size": 1,
}
"""Of the command line, beside those of the kits' server."""

_KERNELS = '''"""Kernels that are imported and never called here."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def kernel(*args, **kwargs):
        raise NotImplementedError(f"sgl_kernel.{name} is not here")

    return kernel
'''


def environment(folder: Path) -> dict[str, str]:
    """Variables under which SGLang sees no platform plugin, and the stand-in that is written into `folder`."""
    package = folder / "sgl_kernel"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(_KERNELS)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {
        "PYTHONPATH": path,
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_PLUGINS": "none",
        "SGLANG_PLATFORM": "",
    }
