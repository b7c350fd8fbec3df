"""Timing on a GPU with its own events, and without a GPU the same steps with nothing executed."""

from __future__ import annotations

import contextlib
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import gpu_peers
import torch
from gpu_rows import Built, Row

__all__ = ["Pretended", "Timer", "versions"]

_TRITON_PEERS = ("sglang triton",)
"""Peers that launch Triton kernels, and so can be pretended as ours are."""

_PACKAGES = ("torch", "triton", "sglang", "flashinfer-python", "flash-attn", "sgl-kernel", "aiter")


def versions(device: torch.device, target: str) -> dict[str, Any]:
    """All that a figure depends on."""
    found: dict[str, Any] = {"target": target, "python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    if (release := gpu_peers.carried()) is not None:
        found["sglang"] = f"{release}, its Triton kernels carried"
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {"device": properties.name, "memory": properties.total_memory, "cuda": torch.version.cuda}
        found["hip"] = torch.version.hip
    return found


class Timer:
    """Contenders of a row take turns; each sample starts with a cold L2; medians in seconds."""

    def __init__(self, device: torch.device, repeats: int) -> None:
        self._device = device
        self._repeats = repeats
        # Larger than any L2: writing it throws out what a contender left there.
        self._flush = torch.empty(1 << 28, dtype=torch.int8, device=device)

    def copy_bandwidth(self) -> float:
        """Bytes per second, read and written, of a device copy of 2 GiB."""
        source = torch.empty(1 << 30, dtype=torch.int8, device=self._device)
        target = torch.empty_like(source)
        seconds = statistics.median(self._sample(lambda: target.copy_(source)) for _ in range(self._repeats))
        return 2 * source.numel() / seconds

    def measure(self, row: Row) -> dict[str, Any]:
        """The row as it goes into the report."""
        free, _ = torch.cuda.mem_get_info(self._device)
        if row.needs > 0.8 * free:
            return _report(row, None, {}, f"needs {row.needs >> 30} GiB, {free >> 30} are free")
        built = row.build(self._device)
        times: dict[str, list[float]] = {}
        for name, run in list(built.run.items()):
            try:
                for _ in range(3):
                    run()
                torch.cuda.synchronize()
            except Exception as error:
                if not times:
                    raise
                built.missing[name] = repr(error)[:200]
                del built.run[name]
                continue
            times[name] = []
        for _ in range(self._repeats):
            for name, samples in times.items():
                samples.append(
                    self._on_host(built.run[name]) if row.bound == "host" else self._sample(built.run[name])
                )
        report = _report(row, built, {name: statistics.median(samples) for name, samples in times.items()})
        del built
        torch.cuda.empty_cache()
        return report

    def _on_host(self, run: Callable[[], Any]) -> float:
        """By the host's clock, until the device has finished: for work whose cost is the host's."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    def _sample(self, run: Callable[[], Any]) -> float:
        self._flush.zero_()
        # The GPU is busy with this while the CPU enqueues, so that launch overhead on the CPU is not measured.
        torch.cuda._sleep(2_000_000)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3


class Pretended:
    """Builds every row and launches ours and the peers in Triton under a driver without a device; no time is noted."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def copy_bandwidth(self) -> None:
        """Unknown."""

    def measure(self, row: Row) -> dict[str, Any]:
        """The row without times, with the launches that were made."""
        from sglang_platform.conformance.kernels.compile.fake_driver import pretend

        with pretend(self._target) as launches:
            built = row.build(torch.device("cpu"))
            next(iter(built.run.values()))()
            ours = len(launches)
            for name in [name for name in built.run if name in _TRITON_PEERS]:
                try:
                    built.run[name]()
                except Exception as error:  # noqa: BLE001 - whatever stops a peer is written into the report
                    built.missing[name] = repr(error)[:200]
        report = _report(row, built, {})
        made = [{"kernel": launch.name, "grid": list(launch.grid)} for launch in launches]
        report["launches"], report["launches_of_peers"] = made[:ours], made[ours:]
        return report


def _report(
    row: Row, built: Built | None, seconds: dict[str, float], skipped: str | None = None
) -> dict[str, Any]:
    return {
        "name": row.name,
        "case": dict(row.case),
        "bound": row.bound,
        "bytes": None if built is None else built.moved,
        "flops": None if built is None else built.flops,
        "seconds": seconds,
        "missing": {} if built is None else built.missing,
        "skipped": skipped,
    }
