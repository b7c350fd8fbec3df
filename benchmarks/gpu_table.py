"""The tables of `gpu.py` and `gpu_all.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

__all__ = ["kernel_line", "line", "page", "table"]

OURS = "sglang_platform"


def kernel_line(outcome: dict[str, Any]) -> str:
    """The correctness of one kernel in words, with its first faults."""
    lines = [
        f"{outcome['kernel']:28} {outcome['cases']:4} cases, {len(outcome['failed'])} wrong, "
        f"worst {outcome['worst']:.2f} of its bound"
    ]
    lines += [f"  {fault['case']}: {'; '.join(fault['faults'])}" for fault in outcome["failed"][:3]]
    return "\n".join(lines)


def line(row: dict[str, Any], copy_bandwidth: float | None) -> str:
    """One row in words, as it is measured."""
    return f"{row['name']:24} {_case(row):44} {_found(row, copy_bandwidth)}"


def _case(row: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in row["case"].items())


def _found(row: dict[str, Any], copy_bandwidth: float | None) -> str:
    if row["skipped"]:
        return f"left out: {row['skipped']}"
    if not row["seconds"]:
        by_peers = _launches(row.get("launches_of_peers", []))
        return f"not measured; launches {_launches(row.get('launches', []))}" + (
            f"; peers {by_peers}" if by_peers else ""
        )
    ours = row["seconds"][OURS]
    others = ", ".join(
        f"{name} {seconds / ours:.2f}x" for name, seconds in row["seconds"].items() if name != OURS
    )
    return (
        f"{ours * 1e6:9.1f} us  {_rate(row, ours, copy_bandwidth)}  others over ours: {others or 'none here'}"
    )


def _launches(made: list[dict[str, Any]]) -> str:
    counts = Counter(f"{launch['kernel']}{tuple(launch['grid'])}" for launch in made)
    return ", ".join(f"{count} x {words}" if count > 1 else words for words, count in counts.items())


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
    lines += [f"not measured: {name}: {why}" for name, why in _missing(record)]
    return "\n".join(lines)


def _missing(record: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted({name: why for row in record["rows"] for name, why in row["missing"].items()}.items())


def page(record: dict[str, Any]) -> str:
    """The record of `gpu_all.py` as Markdown."""
    return "\n".join(_page(record)) + "\n"


def _page(record: dict[str, Any]) -> Iterator[str]:
    versions, bandwidth = record["versions"], record["copy_bandwidth"]
    yield f"# {versions.get('device', versions.get('target', 'No device'))}\n"
    if record["pretended"]:
        yield "A rehearsal without a device: compiled, launched under a driver that executes nothing, not measured.\n"
    yield f"{record['started']}, a budget of {record['budget']:g} s. " + ", ".join(
        f"{name} {value}" for name, value in versions.items() if name not in ("device", "memory")
    )
    if bandwidth:
        yield f"\nCopy bandwidth: {bandwidth / 1e9:.0f} GB/s, read and written."
    yield "\n## Steps\n\n| step | ended | seconds | words |\n|---|---|---|---|"
    for step in record["steps"]:
        yield f"| {step['step']} | {step['ended']} | {step['seconds']:.1f} | {_cell(step['words'])} |"
    if record["correctness"]:
        yield "\n## Correctness\n\n| kernel | verdict | cases | worst, of its bound |\n|---|---|---|---|"
        for kernel in record["correctness"]:
            yield (
                f"| {kernel['kernel']} | {_cell(kernel['verdict'])} | {kernel['cases']} | {kernel['worst']:.2f} |"
            )
    if record["conformance"]:
        found = record["conformance"]
        counts = ", ".join(f"{number} {status}" for status, number in found["counts"].items())
        yield f"\n## Conformance\n\nLevels {found['levels']}: {counts}."
        for failed in found["failed"]:
            yield f"\n- `{failed['check']}`: {_cell(str(failed['failure']))}"
    if record["rows"]:
        yield "\n## Rows\n\nOthers over ours: above 1, ours is faster.\n\n| row | case | found |\n|---|---|---|"
        for row in record["rows"]:
            yield f"| {row['name']} | {_case(row)} | {_cell(_found(row, bandwidth))} |"
    if record["not_run"]:
        yield "\n## Not run\n\n| what | why |\n|---|---|"
        for entry in record["not_run"]:
            yield f"| {_cell(entry['what'])} | {_cell(entry['why'])} |"
    if missing := _missing(record):
        yield "\n## Peers that did not take part\n\n| peer | why |\n|---|---|"
        for name, why in missing:
            yield f"| {name} | {_cell(why)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()
