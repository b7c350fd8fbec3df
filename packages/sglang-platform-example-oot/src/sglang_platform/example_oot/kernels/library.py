"""The operators of this device, registered with torch's dispatcher once per process.

A vendor changes nothing here; a new family of operators adds its module. The plain torch functions serve any device
until a kernel is registered for it: `torch.library.impl("sglang_example_oot::rms_norm", "PrivateUse1")` above a
function of the same arguments, or `TORCH_LIBRARY_IMPL(sglang_example_oot, PrivateUse1, m)` in C++.

The schemas are the same whether the compiled kernels serve them or the plain torch functions, so a recorder built on
`TorchDispatchMode` sees one operator per call, with the arguments it writes declared.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

import torch

from sglang_platform.example_oot.kernels import (
    activations,
    attention,
    convolution,
    kv_store,
    moe,
    native,
    norm,
    product,
    rotary,
)

__all__ = ["FALLBACKS", "NAMESPACE", "backend", "operator"]

NAMESPACE = "sglang_example_oot"

_FAMILIES = (activations, attention, convolution, kv_store, moe, norm, product, rotary)
SCHEMAS: dict[str, str] = {name: text for family in _FAMILIES for name, text in family.SCHEMAS.items()}
FALLBACKS: dict[str, Callable[..., None]] = {
    name: getattr(family, name) for family in _FAMILIES for name in family.SCHEMAS
}

_lock = threading.Lock()
_library: torch.library.Library | None = None  # dropping it would unregister the operators
_backend: Literal["native", "torch"] = "torch"


def backend() -> Literal["native", "torch"]:
    """Which implementation serves this process; registers the operators, and builds the kernels, if need be."""
    _register()
    return _backend


def operator(name: str) -> Any:
    """The operator `name` as a callable (`torch._ops.OpOverload`), ready to run."""
    _register()
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _register() -> None:
    global _backend, _library
    with _lock:
        if _library is not None:
            return
        library = torch.library.Library(NAMESPACE, "DEF")
        for name, schema in SCHEMAS.items():
            library.define(name + schema)
            library.impl(name, _writes_nothing, "Meta")
        _backend = "native" if native.load() else "torch"
        if _backend == "torch":
            for name, function in FALLBACKS.items():
                library.impl(name, function, "CompositeExplicitAutograd")  # for any device
        _library = library


def _writes_nothing(*args: Any, **kwargs: Any) -> None:
    """Every operator only fills tensors it is given, so on the meta device there is nothing to do.

    RuntimeError where some tensors have values: the call would leave what it was to write as it is.
    """
    devices = {value.device for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)}
    if len(devices) > 1:
        raise RuntimeError(
            f"expected all tensors on one device, but found {', '.join(sorted(map(str, devices)))}"
        )
