"""A model compiled by SGLang's compiler, whose pieces are the platform's; `../test_piecewise.py` runs it."""

# ruff: noqa: E402, PT018 - SGLang is told where it runs before its compiler is imported

import os
import sys

import sglang.srt.platforms as host
import torch

ours = host.current_platform
device = ours.get_device(0)
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())

from sglang.srt.compilation.compilation_config import CompilationConfig
from sglang.srt.compilation.compile import install_torch_compiled
from sglang.srt.compilation.compile_phase import enable_torch_compile_warmup, set_pcg_capture_stream
from sglang.srt.model_executor.runner_backend_utils.tc_piecewise_cuda_graph import (
    enable_tc_piecewise_cuda_graph,
)

from sglang_platform.core import HookRegistry, HookType
from sglang_platform.core.counters import counter, snapshot
from sglang_platform.core.sglang.graphs import piecewise

traced = counter("pieces.hooks_traced")


def before(*args, **kwargs):
    if torch.compiler.is_compiling():
        traced.add()


def after(result, *args, **kwargs):
    return result * 2


def around(original, *args, **kwargs):
    return original(*args, **kwargs) + 1


if "hooked" in sys.argv:
    for type_, hook in ((HookType.BEFORE, before), (HookType.AFTER, after), (HookType.AROUND, around)):
        HookRegistry.register("torch.nn.modules.linear:Linear.forward", hook, type_)
    HookRegistry.apply_hooks()
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
print("pieces", pieces, "hooks traced", traced.value)
