"""The whole check of a vendor's kernels, on a vendor with one good kernel and several with a defect each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

VENDOR = '''
"""A vendor's package: a kernel, its wrapper, its check, its launches, its declaration."""
import torch
import triton
import triton.language as tl
from sglang_platform.conformance.kernels.case import Case, compare
from sglang_platform.core.contract.kernels import CompileLimits, KernelDeclaration, KernelTarget


@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def double(x):
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


def cases(entry, device, seed):
    for n in range(1, 40):
        x = torch.randn(97 * n, generator=torch.Generator().manual_seed(seed + n)).to(device)
        yield Case(f"n={97 * n}", lambda x=x: [compare("out", entry(x), 2 * x.cpu().double(), 0.0)])


def launches():
    return {"1M": lambda: double(torch.empty(1 << 20))}


TARGETS = (
    KernelTarget(name="sm_80", backend="cuda", arch=80, warp=32, shared=163 * 1024, processors=108),
    KernelTarget(name="sm_90", backend="cuda", arch=90, warp=32, shared=227 * 1024, processors=132),
    KernelTarget(name="gfx942", backend="hip", arch="gfx942", warp=64, shared=64 * 1024, processors=304),
)
KERNELS = KernelDeclaration(
    name="double", entry="vendor:double", check="vendor:cases", launches="vendor:launches",
    limits={"double_kernel": CompileLimits(why="a copy")}, targets=TARGETS,
)


class Platform:
    kernels = ("vendor:KERNELS",)
'''

DEFECTS = {
    "a wrong result": ("* 2, mask", "* 2.001, mask", "times its bound"),
    "a write out of bounds": ("* 2, mask=i < n", "* 2, mask=i <= n", "out of bounds"),
    "no limits stated": ('"double_kernel": Comp', '"other": Comp', "states no limits for it"),
    "narrow loads": ("x + i, mask", "x + i * 3 % n, mask", "no load of 16 bytes per lane"),
    "matrix units asked for": ('why="a copy"', 'why="a copy", matrix=True', "no matrix instruction"),
    "nothing launched": ("lambda: double(torch.empty(1 << 20))", "lambda: None", "nothing was launched"),
    "no cases": ("range(1, 40)", "range(1, 1)", "0 cases"),
}


def run(folder: Path, source: str, cache: Path) -> subprocess.CompletedProcess[str]:
    (folder / "vendor.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    environment.pop("TRITON_INTERPRET", None)
    module = "sglang_platform.conformance.kernels"
    options = [
        "--platform",
        "vendor:Platform",
        "--workers",
        "1",
        "--cache",
        str(cache),
        "--table",
        str(folder / "t.md"),
    ]
    return subprocess.run(
        [sys.executable, "-m", module, *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.long
def test_a_good_kernel_passes_and_its_table_is_written(tmp_path: Path, cache: Path) -> None:
    source = VENDOR.replace(
        "targets=TARGETS",
        'targets=TARGETS, exclusions={"sm_80/1M": "this is why"}',
    )
    done = run(tmp_path, source, cache)
    assert done.returncode == 0, done.stdout
    assert "39 cases, 0 failed" in done.stdout
    assert "2 launches x targets, 3 kernels, 1 excluded, 0 failed" in done.stdout
    assert done.stdout.strip().splitlines()[-1].startswith("passed; only hardware (")
    table = (tmp_path / "t.md").read_text()
    assert "| 1M | `double_kernel` | sm_90 |" in table
    assert "| 1M | `double_kernel` | gfx942 |" in table
    assert "sm_80, 1M: not compiled: this is why." in table


@pytest.mark.sample(9)
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_told(defect: str, tmp_path: Path, cache: Path) -> None:
    old, new, words = DEFECTS[defect]
    assert VENDOR.count(old) == 1
    done = run(tmp_path, VENDOR.replace(old, new), cache)
    assert done.returncode == 1, done.stdout
    assert words in done.stdout, done.stdout
    assert done.stdout.strip().splitlines()[-1].startswith("FAILED; only hardware (")
