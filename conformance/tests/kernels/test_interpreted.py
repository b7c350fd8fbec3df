"""The interpreter's own tests, in a process of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.conformance.kernels.interpreter.process import run_tests

INTERPRETED = Path(__file__).parent / "interpreted"


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    "file",
    [
        "test_number_formats.py",
        "test_inline_assembly.py",
        "test_split_work.py",
        "test_die_order.py",
        "test_watched_accesses.py",
        "test_weights_in_two_parts.py",
        "test_whole_pages.py",
    ],
)
def test_in_the_interpreter(file: str) -> None:
    run_tests(INTERPRETED / file)


@pytest.mark.sample(8)
@pytest.mark.parametrize("package", ["cuda", "rocm"])
@pytest.mark.parametrize(
    "file",
    [
        "test_attention_backend.py",
        "test_memory_and_op_kernels.py",
        "test_pools_on_kernels.py",
    ],
)
def test_a_package_in_the_interpreter(file: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package whose kernels, pools and attention are tested is named in the environment."""
    monkeypatch.setenv("KERNELS_OF", package)
    run_tests(INTERPRETED / file)


@pytest.mark.sample(3)
@pytest.mark.parametrize("package", ["cuda", "rocm"])
@pytest.mark.parametrize(
    "which",
    ["keeps_its_bound", pytest.param("not keeps_its_bound", marks=pytest.mark.long, id="defects")],
)
def test_attention_kernels(which: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tells that the checks see a defect takes minutes for each package."""
    monkeypatch.setenv("KERNELS_OF", package)
    run_tests(INTERPRETED / "test_attention_kernels.py", "-k", which, timeout=900)
