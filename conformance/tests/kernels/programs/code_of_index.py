"""The indexer's loop over the new tokens of a request in machine code, as one line of JSON. Argument: architecture."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict

from sglang_platform.conformance.kernels.compile.fake_driver import pretend
from sglang_platform.conformance.kernels.compile.loop import read_loop
from sglang_platform.conformance.kernels.compile.machine_code import read
from sglang_platform.conformance.kernels.decode_code import TARGETS
from sglang_platform.conformance.kernels.served import launches_of

target = sys.argv[1]
package = f"sglang_platform.{TARGETS[target]}.kernels"
record = importlib.import_module(f"{package}.tuning").ARCHITECTURES[target]
declared = next(
    one for one in importlib.import_module(f"{package}.declared").KERNELS if one.name == "index logits"
)
with pretend(record) as launched:
    launches_of(declared, record)["64 heads x 128, prefill"]()
kernel = launched[0].kernel
print(json.dumps({"code": asdict(read(kernel)), "loop": asdict(read_loop(kernel, inner=True)),
                  "warps": kernel.metadata.num_warps, "keys": record.index_runs.block_n}))  # fmt: skip
