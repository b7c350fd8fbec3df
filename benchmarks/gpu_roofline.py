"""A roofline of the rows of `gpu.py`, as SVG written by hand: no plotting library is needed on a GPU machine."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

__all__ = ["save"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900, 560, 80, 60
_COLOURS = ("#1f6feb", "#d1495b", "#66a182", "#edae49", "#9467bd", "#8b949e", "#17becf", "#c5a3e0")


def save(record: dict[str, Any], path: Path) -> None:
    """Operations per byte against operations per second, both logarithmic. Nothing is written without a time."""
    points = [
        (row["flops"] / row["bytes"], row["flops"] / seconds, name, row)
        for row in record["rows"]
        for name, seconds in row["seconds"].items()
        if row["flops"]
    ]
    if not points:
        return
    low_x, high_x = _decades([p[0] for p in points])
    low_y, high_y = _decades([p[1] for p in points])

    def x(value: float) -> float:
        return _LEFT + (math.log10(value) - low_x) / (high_x - low_x) * (_WIDTH - _LEFT - 220)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (math.log10(value) - low_y) / (high_y - low_y) * (_HEIGHT - _BOTTOM - 40)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{_title(record)}</text>',
    ]
    for decade in range(low_x, high_x + 1):
        parts.append(f'<path d="M{x(10**decade):.1f} 40V{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{x(10**decade):.1f}" y="{_HEIGHT - 40}" text-anchor="middle">1e{decade}</text>'
        )
    for decade in range(low_y, high_y + 1):
        parts.append(f'<path d="M{_LEFT} {y(10**decade):.1f}H{_WIDTH - 220}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y(10**decade) + 4:.1f}" text-anchor="end">1e{decade}</text>')
    parts.append(
        f'<text x="{_LEFT}" y="{_HEIGHT - 16}">operations per byte; upwards: operations per second</text>'
    )
    bandwidth = record["copy_bandwidth"]
    if bandwidth:
        ends = [(10**at, min(max(10**at * bandwidth, 10**low_y), 10**high_y)) for at in (low_x, high_x)]
        ends = [(rate / bandwidth, rate) for _, rate in ends]
        line = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in ends)
        parts.append(f'<polyline points="{line}" stroke="black" fill="none" stroke-dasharray="5 4"/>')
    names = list(dict.fromkeys(p[2] for p in points))
    for intensity, rate, name, row in points:
        colour = _COLOURS[names.index(name) % len(_COLOURS)]
        case = " ".join(f"{key}={value}" for key, value in row["case"].items())
        parts.append(
            f'<circle cx="{x(intensity):.1f}" cy="{y(rate):.1f}" r="4" fill="{colour}" fill-opacity="0.75">'
            f"<title>{row['name']} {case}: {name}, {rate / 1e12:.2f} TFLOP/s</title></circle>"
        )
    for number, name in enumerate(names):
        top = 60 + 20 * number
        parts.append(
            f'<circle cx="{_WIDTH - 200}" cy="{top}" r="5" fill="{_COLOURS[number % len(_COLOURS)]}"/>'
        )
        parts.append(f'<text x="{_WIDTH - 188}" y="{top + 4}">{name}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _decades(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _title(record: dict[str, Any]) -> str:
    found = record["versions"]
    return f"{found.get('device', found['target'])}, torch {found.get('torch')}, triton {found.get('triton')}"
