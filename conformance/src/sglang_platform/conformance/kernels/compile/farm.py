"""Runs every declared launch under the fake driver of every target, over several processes.

Triton's cache directory (`TRITON_CACHE_DIR`) makes a second run short; what is cached is keyed by source, options and
compiler, so nothing stale is read.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

from sglang_platform.conformance.kernels.compile.fake_driver import pretend
from sglang_platform.conformance.kernels.compile.judge import faults
from sglang_platform.conformance.kernels.compile.machine_code import as_dict, read
from sglang_platform.core.contract.kernels import KernelDeclaration, KernelTarget

__all__ = ["CompiledKernel", "compile_all"]


@dataclass
class CompiledKernel:
    """One jitted function, as one launch of one declaration compiled it for one target.

    `faults`: what is wrong, empty where all is well. `excluded`: why it was not compiled. `code`: the fields of
    `MachineCode`.
    """

    declaration: str
    launch: str
    target: str
    kernel: str = ""
    grid: tuple[int, int, int] = (0, 0, 0)
    warps: int = 0
    stages: int = 0
    code: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    excluded: str = ""


def compile_all(
    declared: Sequence[KernelDeclaration], workers: int | None = None
) -> Iterator[CompiledKernel]:
    """Every row of every target, as they come. A launch that raises becomes a row with that fault."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise RuntimeError("compiling needs a process without TRITON_INTERPRET")
    groups: dict[str, list[tuple[KernelDeclaration, KernelTarget]]] = {}
    for one in declared:
        for target in one.targets:
            groups.setdefault(_processes_of(target), []).append((one, target))
    context = multiprocessing.get_context("spawn")
    for tasks in groups.values():
        with ProcessPoolExecutor(
            workers or os.cpu_count(), mp_context=context, initializer=_one_thread
        ) as pool:
            for done in as_completed([pool.submit(compile_one, d, target) for d, target in tasks]):
                yield from done.result()


def _processes_of(target: KernelTarget) -> str:
    """Targets of one name share processes. Triton 3.6 converts 8-bit floats for every AMD architecture as for the first
    that its process compiled for, and ends in a failed assertion."""
    return target.name if target.backend == "hip" else target.backend


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def compile_one(declared: KernelDeclaration, target: KernelTarget) -> list[CompiledKernel]:
    """All launches of one declaration for one target, in this process."""
    # Here, since the process that only hands out the work loads no Triton.
    from sglang_platform.conformance.kernels.served import launches_of

    rows: list[CompiledKernel] = []
    for launch, run in launches_of(declared, target).items():
        reason = declared.excluded(target.name, launch)
        if reason is not None:
            rows.append(CompiledKernel(declared.name, launch, target.name, excluded=reason))
            continue
        rows += _launched(declared, launch, run, target)
    return rows


def _launched(
    declared: KernelDeclaration, launch: str, run: Any, target: KernelTarget
) -> list[CompiledKernel]:
    try:
        with pretend(target) as launched:
            run()
    except Exception:  # noqa: BLE001 - any failure to launch or compile is a finding about the kernel
        text = traceback.format_exc(limit=-4)
        return [CompiledKernel(declared.name, launch, target.name, faults=[text[-1500:]])]
    rows: dict[str, CompiledKernel] = {}
    for one in launched:
        if one.kernel.hash in rows:
            continue
        code = read(one.kernel)
        limits = declared.limits.get(one.name)
        wrong = (
            [f"{one.name} is launched, but the declaration states no limits for it"]
            if limits is None
            else faults(code, limits, target)
        )
        metadata = one.kernel.metadata
        rows[one.kernel.hash] = CompiledKernel(
            declared.name,
            launch,
            target.name,
            kernel=one.name,
            grid=one.grid,
            warps=metadata.num_warps,
            stages=metadata.num_stages,
            code=as_dict(code),
            faults=wrong,
        )
    if not rows:
        return [CompiledKernel(declared.name, launch, target.name, faults=["nothing was launched"])]
    return list(rows.values())
