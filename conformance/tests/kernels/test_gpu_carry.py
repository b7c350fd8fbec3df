"""The check of wheels that are carried to the machine with the card."""

from __future__ import annotations

import importlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
ANY, OLD, NEW = "py3-none-any", "cp311-cp311-manylinux_2_17_x86_64", "cp312-cp312-linux_x86_64"


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("gpu_carry")
    tags = importlib.import_module("packaging.tags")
    linux = lambda: iter(["linux_x86_64", "manylinux_2_17_x86_64"])  # noqa: E731
    monkeypatch.setattr(tags, "platform_tags", linux)

    def of(*wheels: tuple[str, str, list[str]]) -> list[str]:
        for name, tag, requires in wheels:
            with zipfile.ZipFile(tmp_path / f"{name}-{tag}.whl", "w") as archive:
                lines = ["Metadata-Version: 2.1", *(f"Requires-Dist: {need}" for need in requires)]
                archive.writestr(f"{name}.dist-info/METADATA", "\n".join(lines) + "\n\n")
        return list(module.faults(tmp_path, "3.12"))

    return of


@pytest.mark.parametrize(
    ("wheels", "words"),
    [
        ([], "holds no wheel"),
        ([("rpds_py-1.0", OLD, [])], "is not for Python 3.12"),
        ([("jsonschema-4.0", ANY, ["rpds-py>=0.7"])], "requires rpds-py, of which there is no wheel"),
        ([("jsonschema-4.0", ANY, ["rpds-py>=0.7"]), ("rpds_py-0.1", NEW, [])], "the wheel is of 0.1"),
        ([("a-1.0", ANY, ['tomli; python_version < "3.13"'])], "requires tomli"),
    ],
)
def test_what_is_wrong_is_named(faults: Any, wheels: list[Any], words: str) -> None:
    (line,) = faults(*wheels)
    assert words in line


@pytest.mark.parametrize(
    "wheels",
    [
        [("jsonschema-4.0", ANY, ["rpds-py>=0.7", "torch", "numpy>=1"]), ("rpds_py-1.0", NEW, [])],
        [("a-1.0", ANY, ['tomli; python_version < "3.12"', 'pytest; extra == "test"'])],
        [("Mark_Up-1.0", "cp38-abi3-manylinux_2_17_x86_64", [])],
    ],
)
def test_a_whole_folder_is_good(faults: Any, wheels: list[Any]) -> None:
    assert faults(*wheels) == []
