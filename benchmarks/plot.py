"""The table and the plot of `discovery_and_hooks.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hooked_calls import FLOOR
from measure import OURS

__all__ = ["print_table", "save"]

Row = dict[str, Any]
_COLOURS = {
    OURS: "#1f6feb",
    FLOOR: "#8b949e",
    "any arguments": "#c9d1d9",
    "bare scan": "#8b949e",
    "plain object": "#8b949e",
    "SGLang": "#d1495b",
    "wrapt": "#edae49",
    "pluggy": "#66a182",
    "importlib.metadata": "#9467bd",
    "importlib_metadata": "#c5a3e0",
}


def print_table(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("row", "case", "ours: median (min)", "others: median (ours / theirs)", "aim", "verdict")
    last = None
    for row in rows:
        if last not in (None, row["row"]):
            table.add_section()
        last, times = row["row"], row["times"]
        ours = f"{_short(times[OURS]['median'])} ({_short(times[OURS]['min'])}) {row['unit']}"
        if "wall" in row:
            ours += f", wall {_short(row['wall'][OURS]['median'])}"
        others = (
            f"{name} {_short(times[name]['median'])} ({ratio['median']:.2g})"
            for name, ratio in row["ours_over"].items()
        )
        aim = row.get("aim", {"text": "", "met": None})
        verdict = {True: "[green]met", False: "[red]missed", None: ""}[aim["met"]]
        table.add_row(row["row"], row["case"], ours, ", ".join(others), aim["text"], verdict)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    console.print("Milliseconds are of a processor, and those of processes over a bare Python's.")


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def save(report: Mapping[str, Any], path: Path) -> None:
    """Bars of how many times the reference each contender takes, on a log scale, with the aim as a line."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": "benchmarks", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    rows = report["rows"]
    figure = pyplot.figure(figsize=(13, 8.5), layout="constrained")
    places = figure.subplot_mosaic([["processes", "listing", "platform"], ["calls"] * 3])
    fresh = [row for row in rows if row["row"] in ("import", "register") and "aim" in row]
    _bars(
        places["processes"],
        "Fresh process, over a bare Python: times the aim",
        {f"{row['row']}:\n{row['case']}\n(aim {row['aim']['limit']} ms)": row for row in fresh},
        lambda row, name: row["times"][name]["median"] / row["aim"]["limit"],
        1,
    )
    listings = [row for row in rows if row["row"] == "listing" and row["case"].endswith("first")]
    _bars(
        places["listing"],
        "Listing the plugins in a fresh process: times a bare scan",
        {row["case"].split(",")[0].replace(" ", "\n"): row for row in listings},
        lambda row, name: row["times"][name]["median"] / row["times"]["bare scan"]["median"],
        2,
    )
    attribute = [row for row in rows if row["row"] == "current_platform" and "aim" in row]
    _bars(
        places["platform"],
        "A platform's attribute: times the aim",
        {f"current_platform.{row['case']}\n(aim {row['aim']['limit']} ns)": row for row in attribute},
        lambda row, name: row["times"][name]["median"] / row["aim"]["limit"],
        1,
    )
    calls = [row for row in rows if row["row"] == "hooked call" and "aim" in row]
    _bars(
        places["calls"],
        "A hooked call: times the floor, which is one frame written by hand for the target, or partials",
        {_call_label(row["case"]): row for row in calls if "by position" in row["case"]},
        lambda row, name: row["times"][name]["median"] / row["times"][FLOOR]["median"],
        1.3,
    )
    labelled = {}
    for axis in places.values():
        labelled |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    labelled["one frame for any arguments"] = labelled.pop("any arguments")
    figure.legend(labelled.values(), labelled.keys(), loc="outside lower center", ncols=6, frameon=False)
    versions = report["environment"]["versions"]
    peers = ", ".join(
        f"{name} {versions[name]}" for name in ("sglang", "wrapt", "pluggy", "importlib_metadata")
    )
    figure.suptitle(
        f"Discovery and hooks: medians, lower is better, log scale. Python {report['environment']['python']}, {peers}"
    )
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _call_label(case: str) -> str:
    place, _, rest = case.partition(": ")
    type_, _, depth = rest.partition(", ")
    return f"{place.split(',')[0]}\n{type_}\n{depth}"


def _bars(
    axis: Any, title: str, rows: Mapping[str, Row], ratio: Callable[[Row, str], float], aim: float
) -> None:
    present = [name for name in _COLOURS if any(name in row["times"] for row in rows.values())]
    width = 0.84 / len(present)
    for place, name in enumerate(present):
        at = [i for i, row in enumerate(rows.values()) if name in row["times"]]
        heights = [ratio(row, name) for row in rows.values() if name in row["times"]]
        places = [i - 0.42 + (place + 0.5) * width for i in at]
        axis.bar(places, heights, width, label=name, color=_COLOURS[name])
        for x, height in zip(places, heights, strict=True):
            text = f"{height:.0f}" if height >= 10 else f"{height:.2g}"
            axis.text(
                x, height, text, ha="center", va="bottom", fontsize=6.5, rotation=90 if width < 0.1 else 0
            )
    axis.axhline(aim, color="black", linestyle="--", linewidth=1, label="aim", zorder=0)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("")
    low, high = axis.get_ylim()
    axis.set_ylim(low * 0.9, high * 1.3)
    axis.set_xticks(range(len(rows)), list(rows))
    axis.set_title(title, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
