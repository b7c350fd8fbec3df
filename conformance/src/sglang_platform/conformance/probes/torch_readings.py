"""Functions of the standard library and of torch, and settings of torch and numpy. Each reading gives plain types."""

from __future__ import annotations

import builtins
import inspect
import json
import logging
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from typing import Any

from sglang_platform.conformance.probes.process_readings import called

__all__ = [
    "existing",
    "functions",
    "numpy_settings",
    "replaced_operators",
    "torch_settings",
]

# Functions of others


_STANDARD = (
    builtins,
    os,
    sys,
    time,
    socket,
    subprocess,
    threading,
    multiprocessing,
    json,
    pickle,
    logging,
    signal,
    ssl,
    shutil,
    tempfile,
    random,
    warnings,
)
_TORCH = (
    "",
    ".Tensor",
    ".nn.Module",
    ".nn.functional",
    ".cuda",
    ".xpu",
    ".mps",
    ".cpu",
    ".amp",
    ".distributed",
    ".accelerator",
    ".random",
)


def functions() -> dict[str, str]:
    found = {}
    for module in _STANDARD:
        for name, value in vars(module).items():
            if callable(value) and f"{module.__name__}.{name}" not in ("builtins._", "sys.excepthook"):
                found[f"{module.__name__}.{name}"] = called(value)
    torch = sys.modules.get("torch")
    for place in _TORCH if torch is not None else ():
        owner: Any = torch
        for part in filter(None, place.split(".")):
            owner = getattr(owner, part)
        for name in dir(owner):
            value = inspect.getattr_static(owner, name, None)  # of a class, what it inherits too
            if callable(value):
                found[f"torch{place}.{name}"] = called(value)
    return found


_known: dict[str, str] = {}


def existing() -> dict[str, str]:
    """The functions that were there at the first reading. One that is new replaces nothing: a device adds its own."""
    now = functions()
    if not _known:
        _known.update(now)
    return {name: now.get(name, "gone") for name in _known}


def replaced_operators() -> list[str]:
    """torch's own operators that Python code took over, for devices that torch itself serves."""
    library = sys.modules.get("torch.library")
    taken = vars(library).get("_impls", ()) if library is not None else ()
    return sorted(one for one in taken if one.startswith("aten/") and "PrivateUse1" not in one)


# torch and numpy


def numpy_settings() -> dict[str, Any]:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return {}
    return {
        **{f"errors by {name}": how for name, how in numpy.geterr().items()},
        "print options": str(numpy.get_printoptions()),
    }


def torch_settings() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "threads": torch.get_num_threads(),
        "threads between operators": torch.get_num_interop_threads(),
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32 products": torch.get_float32_matmul_precision(),
        "print options": str(vars(torch._tensor_str.PRINT_OPTS)),
        "denormals": float(torch.tensor(1e-40, device="cpu")) == 0.0,
        "tf32": torch.backends.cudnn.allow_tf32,
        "cudnn benchmark": torch.backends.cudnn.benchmark,
        "tf32 in products": torch.backends.cuda.matmul.allow_tf32,
        "cudnn": (torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic),
        "automatic casts": torch.is_autocast_enabled("cpu"),
        "search for anomalies": torch.is_anomaly_enabled(),
        "attention kernels": (
            torch.backends.cuda.flash_sdp_enabled(),
            torch.backends.cuda.mem_efficient_sdp_enabled(),
            torch.backends.cuda.math_sdp_enabled(),
        ),
        "sharing strategy": torch.multiprocessing.get_sharing_strategy(),
        "function modes": torch._C._len_torch_function_stack(),
    }
