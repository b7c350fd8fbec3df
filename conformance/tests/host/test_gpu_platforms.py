"""The CUDA and ROCm platforms inside SGLang on a machine without a GPU: their parts on SGLang's classes.

The platform is named by hand, since its probe would decline here. Kernels run in Triton's interpreter, for an
architecture without fp8 conversions, whose integer code the stock interpreter computes right.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sglang_platform.conformance.host.stacks import completed

pytestmark = pytest.mark.host

CHECK = Path(__file__).parent / "gpu_platform_parts.py"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("cuda", "sglang_platform.cuda.platform:CudaSRTPlatform"),
        ("rocm", "sglang_platform.rocm.platform:RocmSRTPlatform"),
    ],
)
def test_parts_serve_on_the_hosts_classes(name: str, place: str) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "SGLANG_PLATFORM_PLUGIN": f"{name}={place}"}
    environment.pop("SGLANG_PLATFORM_PARTS", None)
    done = completed(
        [sys.executable, "-W", "ignore", str(CHECK), name],
        env=environment,
        seconds=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "served by our kernels" in done.stdout
