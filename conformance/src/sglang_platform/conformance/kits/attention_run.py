"""The process that runs SGLang's attention kit and its cache of prefixes on one device: a line of JSON per case.

    python -m sglang_platform.conformance.kits.attention_run DEVICE BACKEND

The kit is used as it is. What it takes for granted of CUDA is put in its place: the device and its random state.
"""

# Imports inside functions: what stands in for a missing library must be there before SGLang is imported.

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from sglang_platform.conformance.kits.verdict import KitTest

__all__ = ["RADIX"]

RADIX = "radix cache, in memory"


def _absent(name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name} was called; it is not installed")

    return call


class _AbsentKernels(ModuleType):
    """`sgl_kernel`, which SGLang's own CPU device imports: every name is there, and raises when it is called."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent(name)


class _AbsentOperators:
    """The operators of `sgl_kernel` for CPUs, by which name the host asks whether others are there."""

    def __getattr__(self, name: str) -> Any:
        if not name.endswith("_cpu"):
            raise AttributeError(name)
        return _absent(name)


def _as_sglangs_own_cpu() -> None:
    import importlib.util

    os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
    if importlib.util.find_spec("sgl_kernel") is None:
        for name in ("sgl_kernel", "sgl_kernel.speculative", "sgl_kernel.flash_attn", "sgl_kernel.mamba"):
            sys.modules[name] = _AbsentKernels(name)
        import torch

        torch.ops.sgl_kernel = _AbsentOperators()


def _stand_in_for_cuda() -> None:
    import torch

    torch.cuda.get_rng_state = lambda device="cuda": torch.get_rng_state()
    torch.cuda.set_rng_state = lambda state, device="cuda": None
    torch.set_grad_enabled(False)


def _reason(error: BaseException) -> str:
    """The first cause, and where in the sources it was raised."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {' '.join(lines[:2])[:200]}{where}"


def _of_the_cache() -> Iterator[tuple[str, str, Callable[..., None]]]:
    """The cases of the cache of prefixes; none in a release without that kit."""
    try:
        from sglang_platform.conformance.kits.radix_cases import radix_cases
    except ImportError:
        return
    for name, run in radix_cases():
        yield RADIX, name, run


def main(device: str, backend: str) -> None:
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what SGLang prints is not the report
    if device == "cpu" and backend == "torch_native":
        _as_sglangs_own_cpu()
    else:
        from sglang.srt.plugins import load_plugins

        load_plugins()
    import torch
    from sglang.test.kits.attention_unittest.attention_methods import dense_attention

    from sglang_platform.conformance.kits.attention_cases import kit_cases

    _stand_in_for_cuda()
    windows = dense_attention._SWA_DECODE_EXTEND_WINDOW | {backend}
    dense_attention._SWA_DECODE_EXTEND_WINDOW = windows
    for kit, name, run in (*kit_cases(backend), *_of_the_cache()):
        started, outcome, words = time.monotonic(), "passed", ""
        try:
            run(unittest.TestCase(), device=device, dtype=torch.float16)
        except unittest.SkipTest as skipped:
            outcome, words = "skipped", _reason(skipped)
        except Exception as error:  # noqa: BLE001 - any failure of a case is its outcome
            outcome, words = "failed", _reason(error)
        test = KitTest(kit, name, outcome, words, round(time.monotonic() - started, 1))
        report.write(json.dumps(test._asdict()) + "\n")
        report.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
