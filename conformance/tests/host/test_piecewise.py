"""Prefill in compiled pieces on the example device.

SGLang 0.5.11 to 0.5.21 serve prefill so where the operator asks for it. From 0.5.22 the argument is refused
(`model_executor/cuda_graph_config.py:239` in 0.5.23), `resolve_prefill_backend` has no branch for it
(`model_executor/runner_backend/utils.py:144`) and attention is no cut any more (`layers/radix_attention.py`); what
compiles and cuts a model (`compilation/compile.py`, `compilation/backend.py`) is still there, and is called here.
`nox -s piecewise` runs this file in a release that still serves so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess
from sglang_platform.core.hosts.sglang.versions import facts_for

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

NEW_TOKENS = 16
TOKEN_COUNTS = [8, 32, 64, 144, 320]
HOST = facts_for(version("sglang"))

COMPILED = """
import os
import torch
import sglang.srt.platforms as host

ours = host.current_platform
device = ours.get_device(0)
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())

from sglang.srt.compilation.compilation_config import CompilationConfig
from sglang.srt.compilation.compile import install_torch_compiled
from sglang.srt.compilation.compile_phase import enable_torch_compile_warmup, set_pcg_capture_stream
from sglang.srt.model_executor.runner_backend_utils.tc_piecewise_cuda_graph import enable_tc_piecewise_cuda_graph
from sglang_platform.core.counters import snapshot
from sglang_platform.core.hosts.sglang.seams import piecewise

library = torch.library.Library("sglang", "FRAGMENT")
library.define("cut(Tensor x, Tensor(a!) out) -> ()")
def cut(x, out):
    out.copy_(x.cumsum(0))

library.impl("cut", cut, "CUDA")
library._register_fake("cut", lambda x, out: None)
lent = piecewise.prepare(device.type)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor):
        for layer in self.layers:
            x = layer(x).relu()
            out = torch.empty_like(x)
            torch.ops.sglang.cut(x, out)
            x = out / 16
        return x + 1

torch.manual_seed(0)
model, eager = Model().to(device), Model().to(device)
eager.load_state_dict(model.state_dict())
config = CompilationConfig([4, 16])
config.add_split_op("sglang.cut")
module = torch.get_device_module(device)
inputs = torch.zeros(16, 16, device=device)
seed = 0

def equal(tokens):
    global seed
    seed += 1
    inputs.copy_(torch.randn(16, 16, generator=torch.Generator().manual_seed(seed)))
    with torch.no_grad():
        got, expected = model(inputs[:tokens]).cpu(), eager(inputs[:tokens]).cpu()
    assert torch.equal(got, expected), (tokens, seed, (got - expected).abs().max())

def counted():
    return [snapshot().get(f"piecewise.{name}", 0) for name in ("captures", "replays", "without_graph")]

with enable_tc_piecewise_cuda_graph():
    install_torch_compiled(model, compile_config=config, graph_pool=module.graph_pool_handle())
    with enable_torch_compile_warmup():
        equal(16), equal(4)
    assert counted() == [0, 0, 0], counted()
    with set_pcg_capture_stream(module.current_stream()):
        for tokens in (16, 4):
            equal(tokens), equal(tokens)
    pieces = counted()[0] // 2
    assert pieces > 1 and counted() == [2 * pieces, 0, 0], counted()
    for tokens in (4, 16, 4, 16):
        equal(tokens)
    assert counted() == [2 * pieces, 4 * pieces, 0], counted()
    equal(9)
    assert counted() == [2 * pieces, 4 * pieces, pieces], counted()
print("pieces", pieces)
"""


@pytest.mark.skipif(
    HOST.compile_phase.endswith("in_pcg_torch_compile"),
    reason=f"the modules of SGLang {HOST.version}'s compiler have other names than those that the test drives",
)
def test_the_hosts_compiler_builds_and_calls_the_platforms_class(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILED],
        env={**os.environ, "SGLANG_PLATFORM": "example_oot", "SGLANG_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("pieces")


@pytest.mark.skipif(
    not HOST.asks_piecewise_backend,
    reason=f"SGLang {HOST.version} refuses tc_piecewise; 0.5.11 to 0.5.21 take it: nox -s piecewise",
)
def test_prompts_of_several_lengths_are_served_by_replays(models: Path, tmp_path: Path) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    asked = reference.prompts((1, 17, 32, 64, 130, 300))
    expected = reference.greedy(checkpoint, asked, NEW_TOKENS)
    asking = {"cuda_graph_backend_prefill": "tc_piecewise", "cuda_graph_bs_prefill": TOKEN_COUNTS}
    if HOST.pieces_argument == "disable_piecewise_cuda_graph":
        asking = {"enforce_piecewise_cuda_graph": True, "piecewise_cuda_graph_tokens": TOKEN_COUNTS}
    arguments = {"model_path": str(checkpoint), "page_size": 16, "max_running_requests": 8, **asking}
    with EngineProcess("example_oot", arguments, environment={"SGLANG_CACHE_DIR": str(tmp_path)}) as engine:
        before = engine.counters()
        alone = [
            engine.call("generate", input_ids=[prompt], max_new_tokens=NEW_TOKENS)[0] for prompt in asked
        ]
        together = engine.call("generate", input_ids=asked, max_new_tokens=NEW_TOKENS)
        counts = engine.counters()
    assert [reply["output_ids"] for reply in alone] == expected
    assert [reply["output_ids"] for reply in together] == expected
    # Four attention layers cut the model into five pieces.
    assert counts["piecewise.captures"] == before["piecewise.captures"] == 5 * len(TOKEN_COUNTS)
    assert before["piecewise.replays"] == counts["piecewise.without_graph"] == 0
    assert counts["piecewise.replays"] >= 5 * 3
    assert counts["piecewise.replays"] % 5 == 0
    assert counts["example_oot.graph.replays"] > 0
    assert counts["host.attention.calls"] == counts["host.kv_pool.stores"] == 0
