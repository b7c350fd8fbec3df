"""The table of decode of a card, from the rows that `gpu_all.py` or `gpu.py` timed there.

    python benchmarks/gpu_decode_table.py RESULTS.json [FOLDER]

FOLDER is the tuning folder of the package that was timed, unless another is named. With the table committed there, a
launch on such a card decodes by the package's attention beside SGLang's prefill, where the table says that it is faster
than SGLang's backend: for each shape of heads, cache and page size no row below 0.99x, more than 1x in the geometric
mean, with rows of one request and of 128 or more. Fewer rows are kept without that verdict.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

OURS, SLOTS = "sglang_platform", "sglang_platform, single slots"
BACKENDS = {"fa3": "fa3", "flashinfer": "flashinfer", "sglang triton": "triton"}
"""SGLang's attention backend of each peer."""
LEAST, MANY = 0.99, 128
PACKAGES = Path(__file__).resolve().parents[1] / "packages"


def table(record: dict[str, Any]) -> dict[str, Any]:
    """The table of the card of `record`; ValueError where no decode was timed on a card."""
    shapes: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in record["rows"]:
        if row["name"].startswith("decode ") and row["seconds"]:
            for pages in (False, True):
                if timed := _timed(row, pages):
                    shapes.setdefault((*_shape(row), pages), []).append(timed)
    card = record["versions"].get("device")
    if not shapes or card is None:
        raise ValueError("no decode was timed on a card")
    decode = [
        dict(zip(("latent", "eight_bit", "group", "dim", "pages"), shape, strict=True))
        | {"faster_than": [name for name in BACKENDS.values() if _is_faster(rows, name)], "rows": rows}
        for shape, rows in shapes.items()
    ]
    return {"card": card, "versions": record["versions"], "decode": decode}


def _shape(row: dict[str, Any]) -> tuple[bool, bool, int, int]:
    heads, _, kv_heads = str(row["case"]["heads"]).partition("/")
    dim, _, values = str(row["case"]["dim"]).partition("/")
    return bool(values), "fp8" in row["name"], int(heads) // int(kv_heads or 1), int(dim)


def _timed(row: dict[str, Any], pages: bool) -> dict[str, Any] | None:
    """Seconds of ours, and of each backend over ours."""
    seconds = row["seconds"]
    alone = OURS if SLOTS in row["missing"] else SLOTS  # a device that reads no whole pages has one way
    ours = seconds.get(OURS if pages else alone)
    if ours is None:
        return None
    over = {backend: round(seconds[peer] / ours, 4) for peer, backend in BACKENDS.items() if peer in seconds}
    return {"batch": row["case"]["batch"], "context": row["case"]["context"], "seconds": ours, "over": over}


def _is_faster(rows: list[dict[str, Any]], backend: str) -> bool:
    beside = [row for row in rows if backend in row["over"]]
    batches, ratios = [row["batch"] for row in beside], [row["over"][backend] for row in beside]
    if not beside or min(batches) > 1 or max(batches) < MANY:
        return False
    return min(ratios) >= LEAST and geometric_mean(ratios) > 1


def main() -> int:
    """Write the table, and print what it says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("folder", type=Path, nargs="?")
    options = parser.parse_args()
    record = json.loads(options.results.read_text(encoding="utf-8"))
    try:
        found = table(record)
    except ValueError as error:
        print(f"no table is written: {error}")
        return 0
    package = "cuda" if record["versions"]["target"].startswith("sm_") else "rocm"
    source = PACKAGES / f"sglang-platform-{package}/src/sglang_platform/{package}/kernels/tuning"
    name = re.sub("[^a-z0-9]+", "_", found["card"].lower()).strip("_")
    file = (options.folder or source) / f"decode_{name}.json"
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for shape in found["decode"]:
        words = ", ".join(
            f"{key} {value}" for key, value in shape.items() if key not in ("faster_than", "rows")
        )
        print(f"{words}: {len(shape['rows'])} rows, faster than {', '.join(shape['faster_than']) or 'none'}")
    print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
