"""Core's sources name no GPU: no architecture, no product. A vendor's package is where such names stand.

Names of the contract that SGLang chose (`is_hopper`, `is_sm120`) are methods, written as such; a product name is a
word of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from findings import refuse
from import_graph import DISTRIBUTIONS, ROOT

ARCHITECTURE = re.compile(r"(?<![A-Za-z0-9])sm_\d+[a-z]?\b|\bgfx\d+[a-z]?\b")
PRODUCT = re.compile(
    r"\b(?:"
    r"[AHBV][1-3]00[A-Z]?|GB?[1-3]00|H20|L40S?|L4|T4|RTX|GeForce|Tesla"  # NVIDIA's boards
    r"|Volta|Turing|Ampere|Ada|Hopper|Blackwell|Rubin"  # and their families
    r"|MI[2-4]\d\d?[A-Z]?|Instinct|Radeon|CDNA[1-4]?|RDNA[1-4]?"  # AMD's
    r")\b"
)


def test_core_names_no_gpu() -> None:
    source = ROOT / DISTRIBUTIONS["core"] / "src"
    refuse(list(_named(source)), "a GPU is named in the package of its vendor, never in core")


def _named(source: Path) -> Iterator[str]:
    for path in sorted(source.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for found in (*ARCHITECTURE.finditer(line), *PRODUCT.finditer(line)):
                yield f"{path.relative_to(source)}:{number}: {found[0]}: {line.strip()}"


@pytest.mark.parametrize(
    "text",
    [
        'TARGET = "sm_90a"',
        'x = {"gfx942": 1}',
        "# gfx90a",
        '"""On an H100."""',
        "the MI300X has",
        "on CDNA3",
        "Hopper",
    ],
)
def test_a_gpu_in_core_is_seen(tmp_path: Path, text: str) -> None:
    (tmp_path / "device.py").write_text(text)
    assert len(list(_named(tmp_path))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def is_hopper(self):",
        "def is_sm120(self):",
        "def is_gfx1151(self):",
        "sm_count = 3",
        "ADAPTER = adapter",
    ],
)
def test_the_names_of_the_contract_pass(tmp_path: Path, text: str) -> None:
    (tmp_path / "device.py").write_text(text)
    assert not list(_named(tmp_path))
