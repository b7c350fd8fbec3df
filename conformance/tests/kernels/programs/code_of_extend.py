"""Extend behind a cached prefix in machine code, as one line of JSON. Arguments: architecture, bf16 or fp8, window."""

from __future__ import annotations

import importlib
import json
import sys

import torch

from sglang_platform.conformance.kernels.compile.fake_driver import pretend
from sglang_platform.conformance.kernels.compile.loop import loop_lengths
from sglang_platform.conformance.kernels.compile.machine_code import read
from sglang_platform.conformance.kernels.decode_code import TARGETS

target, stored, window = sys.argv[1:]
package = f"sglang_platform.{TARGETS[target]}.kernels"
record = importlib.import_module(f"{package}.tuning").ARCHITECTURES[target]
new, cached, heads, kv_heads, dim = 4096, 8192, 32, 8, 128


def rows(count: int, columns: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(count, columns, dim, dtype=dtype)


kept = torch.bfloat16 if stored == "bf16" else getattr(torch, record.e4m3)
scale = None if stored == "bf16" else torch.ones(1)
with pretend(record) as launched:
    importlib.import_module(f"{package}.hardware").paged_extend(
        rows(new, heads), rows(new, kv_heads), rows(new, kv_heads),
        rows(1 << 16, kv_heads, kept), rows(1 << 16, kv_heads, kept),
        torch.empty(2, 16384, dtype=torch.int32), torch.zeros(1, dtype=torch.int64),
        torch.tensor([0, new], dtype=torch.int32), torch.tensor([cached], dtype=torch.int32), rows(new, heads),
        max_new=new, max_prefix=cached, scale=dim**-0.5, k_scale=scale, v_scale=scale, window=int(window),
    )  # fmt: skip
kernel = launched[0].kernel
print(json.dumps({"spills": read(kernel).spills, "loops": loop_lengths(kernel)}))
