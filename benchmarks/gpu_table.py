"""The table of `gpu.py`."""

from __future__ import annotations

from typing import Any

__all__ = ["line", "table"]

OURS = "sglang_platform"


def line(row: dict[str, Any], copy_bandwidth: float | None) -> str:
    """One row in words, as it is measured."""
    case = " ".join(f"{key}={value}" for key, value in row["case"].items())
    if row["skipped"]:
        return f"{row['name']:24} {case:44} left out: {row['skipped']}"
    if not row["seconds"]:
        grids = ", ".join(f"{launch['kernel']}{tuple(launch['grid'])}" for launch in row.get("launches", []))
        return f"{row['name']:24} {case:44} not measured; launches {grids}"
    ours = row["seconds"][OURS]
    rate = _rate(row, ours, copy_bandwidth)
    others = ", ".join(
        f"{name} {seconds / ours:.2f}x" for name, seconds in row["seconds"].items() if name != OURS
    )
    return (
        f"{row['name']:24} {case:44} {ours * 1e6:9.1f} us  {rate}  others over ours: {others or 'none here'}"
    )


def _rate(row: dict[str, Any], seconds: float, copy_bandwidth: float | None) -> str:
    if row["bound"] == "compute":
        return f"{row['flops'] / seconds / 1e12:6.1f} TFLOP/s"
    if row["bound"] == "host":
        return "by the host's clock"
    share = f" ({row['bytes'] / seconds / copy_bandwidth:.0%} of copy)" if copy_bandwidth else ""
    return f"{row['bytes'] / seconds / 1e9:6.0f} GB/s{share}"


def table(record: dict[str, Any]) -> str:
    """All rows, and what was not there to compare with."""
    lines = [line(row, record["copy_bandwidth"]) for row in record["rows"]]
    missing = {name: why for row in record["rows"] for name, why in row["missing"].items()}
    lines += [f"not measured: {name}: {why}" for name, why in sorted(missing.items())]
    return "\n".join(lines)
