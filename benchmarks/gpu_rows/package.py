"""Which package is measured: that of the installed torch, unless `choose` names another.

Rows take their kernels from here, so that one table of rows serves every package.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import torch

__all__ = ["architectures", "choose", "kernel", "native_fp8", "part", "platform"]

_chosen: str | None = None


def choose(name: str | None) -> None:
    """`cuda` or `rocm`; None for the package of the installed torch."""
    global _chosen
    _chosen = name


def platform() -> str:
    """The package's name."""
    return _chosen or ("rocm" if torch.version.hip is not None else "cuda")


def _module(path: str) -> ModuleType:
    return importlib.import_module(f"sglang_platform.{platform()}.{path}")


def kernel(place: str) -> Any:
    """A launch of the package, as `"decode:paged_decode"` or `"hardware:store_pair"`."""
    module, _, name = place.partition(":")
    return getattr(_module(f"kernels.{module}"), name)


def part(module: str) -> Any:
    """The first public class of one of the package's modules."""
    found = _module(module)
    return getattr(found, found.__all__[0])


def architectures() -> Any:
    """The package's records, by name."""
    return _module("kernels.tuning").ARCHITECTURES


def native_fp8() -> torch.dtype:
    """The 8-bit type of a cache on the architecture at hand."""
    found: torch.dtype = getattr(torch, architectures().of(torch.device("cpu")).e4m3)
    return found
