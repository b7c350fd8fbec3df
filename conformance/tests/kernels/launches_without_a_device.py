"""Launch wrappers under the fake driver; `test_fake_driver.py` runs this in a process of its own."""

# ruff: noqa: PT017, PT018 - a script, not a test

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_platform.conformance.kernels.compile.fake_driver import pretend
from sglang_platform.conformance.kernels.compile.judge import faults
from sglang_platform.conformance.kernels.compile.machine_code import read
from sglang_platform.core.contract.kernels import CompileLimits
from sglang_platform.core.portable.triton.architecture import pretended
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES as CUDA
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES as ROCM

KNOWN = {**CUDA, **ROCM}


@triton.jit
def product(a, b, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(o + m[:, None] * N + n[None, :], tl.dot(x, y))


@triton.jit
def strided(a, o, stride, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(a + i * stride))


def launch(target, M=64, N=64, K=64, grid=(3,)):
    a, b = (torch.ones(s, dtype=torch.bfloat16) for s in ((M, K), (K, N)))
    o = torch.zeros(M, N)
    with pretend(KNOWN[target]) as launches:
        assert pretended() is KNOWN[target]
        product[grid](a, b, o, M=M, N=N, K=K)
    assert not o.any(), "nothing may be executed"
    return launches


strict = CompileLimits(why="a test", matrix=True)
for target, instruction in (
    ("sm_80", "mma.sync"),
    ("sm_90", "wgmma"),
    ("sm_100", "tcgen05.mma"),
    ("gfx942", "mfma"),
):
    (one,) = launch(target)
    code = read(one.kernel)
    assert one.grid == (3, 1, 1) and one.name == "product", one
    assert code.matrix == instruction and code.registers > 16 and code.shared > 0, code
    assert faults(code, strict, KNOWN[target]) == [], faults(code, strict, KNOWN[target])

# The same kernel twice on one target: the second launch is recorded too.
assert len(launch("sm_90")) == 1

for target in ("sm_80", "gfx942"):
    try:
        launch(target, 16, 16, 4096)
    except triton.runtime.errors.OutOfResources as error:
        assert "shared memory" in str(error)
    else:
        raise AssertionError(f"too much shared memory for {target} went through")

try:
    launch("sm_90", grid=(1, 1, 70000))
except ValueError as error:
    assert "grid z is 70000" in str(error)
else:
    raise AssertionError("a grid no device takes went through")

with pretend(KNOWN["sm_90"]) as launches:
    strided[(1,)](torch.ones(4096), torch.ones(1024), 3, N=1024)
found = faults(read(launches[0].kernel), strict, KNOWN["sm_90"])
assert any("no matrix instruction" in f for f in found) and any("16 bytes" in f for f in found), found
assert not any(
    "16 bytes" in f
    for f in faults(read(launches[0].kernel), CompileLimits(why="", wide_loads=False), KNOWN["sm_90"])
)
few = CompileLimits(why="", wide_loads=False, registers=4)
assert any("registers" in f for f in faults(read(launches[0].kernel), few, KNOWN["sm_90"]))
print("all seen")
