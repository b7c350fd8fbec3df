"""Memory of each process over the time of a soak, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["draw_memory"]


def draw_memory(report: dict[str, Any], path: Path) -> None:
    """A line for each process, MiB over minutes."""
    # Imports inside functions: matplotlib takes a second, and only the plot needs it.
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    rows = report["memory"]
    names = sorted({name for row in rows for name in row} - {"seconds"})
    figure, axes = plt.subplots(figsize=(9, 4.5))
    for name in names:
        found = [(row["seconds"] / 60, row[name]) for row in rows if name in row]
        axes.plot(*zip(*found, strict=True), label=name.rpartition(" (")[0], linewidth=1.4)
    axes.set_xlabel("minutes")
    axes.set_ylabel("resident memory, MiB")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="center right", fontsize=8)
    axes.set_title(f"{report['clients']} clients, {report.get('answers', 0)} answers", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
