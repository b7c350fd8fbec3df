"""The ops that the example registers, in regions that `torch.compile` compiles: how each ended, as JSON.

    SGLANG_PLATFORM=example_oot compile_fused_ops.py [ours | SGLang's]

The same forwards registered with core, or with SGLang's classes. Each op is SGLang's own object, made anew for every
cell, on the example's device. A call is right where the results, and what it writes in place, are those of a call that
is not compiled.
"""

# ruff: noqa: E402 -- each import stands where the check first needs it

import json
import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import sglang.srt.platforms as host  # noqa: F401

from sglang_platform.core import current_platform as platform
from sglang_platform.core.sglang.ops import fused as fused_ops

logging.disable(logging.WARNING)
platform.init_backend()

import torch
from sglang.srt.layers import activation, layernorm
from sglang.srt.layers.attention.mamba.mixer2_rms_norm_gated import Mixer2RMSNormGated
from sglang.srt.layers.moe.moe_runner.base import MoeRunnerConfig
from sglang.srt.layers.moe.token_dispatcher import StandardDispatchOutput
from sglang.srt.layers.moe.topk import StandardTopKOutput, TopK
from sglang.srt.layers.quantization.unquant import UnquantizedFusedMoEMethod
from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding
from sglang.srt.layers.rotary_embedding.mrope import MRotaryEmbedding
from sglang.srt.layers.rotary_embedding.rope_variant import (
    DeepseekScalingRotaryEmbedding,
    Llama3RotaryEmbedding,
)
from sglang.srt.runtime_context import get_parallel
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from torch._dynamo.utils import counters

sys.path.insert(0, str(Path(__file__).parents[2] / "hooks"))
from compiled_regions import MODES, Compiled, cut

from sglang_platform.core.counters import snapshot

KEY = platform.get_dispatch_key_name()
DEVICE = platform.get_device(0)
ROWS, HIDDEN, HEAD, EXPERTS = 3, 32, 24, 4
CALLED_BEFORE = "called before, then compiled"


class Case(NamedTuple):
    """`make()` gives the op; `call(op, *arguments)` calls it as a model does."""

    make: Callable[[], torch.nn.Module]
    arguments: Callable[[], tuple[torch.Tensor, ...]]
    call: Callable[..., Any] = lambda op, *arguments: op(*arguments)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def one() -> tuple[torch.Tensor, ...]:
    return (normal(ROWS, HIDDEN),)


def two() -> tuple[torch.Tensor, ...]:
    return normal(ROWS, HIDDEN), normal(ROWS, HIDDEN, seed=1)


def turned(axes: int = 0, heads: tuple[int, ...] = ()) -> tuple[torch.Tensor, ...]:
    positions = torch.arange(ROWS) if not axes else torch.arange(axes * ROWS).view(axes, ROWS)
    query, key = normal(ROWS, 4 * HEAD), normal(ROWS, 2 * HEAD, seed=1)
    return (
        positions,
        query.view(ROWS, -1, HEAD) if heads else query,
        key.view(ROWS, -1, HEAD) if heads else key,
    )


def experts(op: Any, *arguments: torch.Tensor) -> Any:
    hidden, weights, ids, logits, w13, w2 = arguments
    layer = torch.nn.Module()
    layer.w13_weight, layer.w2_weight = w13, w2
    return op(layer, StandardDispatchOutput(hidden, None, StandardTopKOutput(weights, ids, logits)))


def of_experts() -> tuple[torch.Tensor, ...]:
    logits = normal(ROWS, EXPERTS)
    weights, ids = torch.softmax(logits, -1).topk(2)
    w13, w2 = normal(EXPERTS, 16, HIDDEN, seed=2), normal(EXPERTS, HIDDEN, 8, seed=3)
    return normal(ROWS, HIDDEN), weights, ids.to(torch.int32), logits, w13, w2


def moe_method() -> torch.nn.Module:
    made = UnquantizedFusedMoEMethod()
    made.moe_runner_config = MoeRunnerConfig()
    return made


ROPE = (HEAD, 16, 64, 10000, True)
CASES: dict[str, Case] = {
    "RMSNorm": Case(partial(layernorm.RMSNorm, HIDDEN), one),
    "RMSNorm, with a residual": Case(partial(layernorm.RMSNorm, HIDDEN), two),
    "SiluAndMul": Case(activation.SiluAndMul, one),
    "RotaryEmbedding": Case(partial(RotaryEmbedding, *ROPE, torch.float32), turned),
    "Llama3RotaryEmbedding, a subclass of RotaryEmbedding": Case(
        partial(Llama3RotaryEmbedding, *ROPE, torch.float32, 8.0, 1.0, 4.0, 32), turned
    ),
    "UnquantizedFusedMoEMethod": Case(moe_method, of_experts, experts),
    "GemmaRMSNorm": Case(partial(layernorm.GemmaRMSNorm, HIDDEN), one),
    "GemmaRMSNorm, with a residual": Case(partial(layernorm.GemmaRMSNorm, HIDDEN), two),
    "Gemma3RMSNorm": Case(partial(layernorm.Gemma3RMSNorm, HIDDEN), one),
    "Gemma4RMSNorm": Case(partial(layernorm.Gemma4RMSNorm, HIDDEN), one),
    "RMSNormWithoutScale": Case(partial(layernorm.RMSNormWithoutScale, HIDDEN), one),
    "Mixer2RMSNormGated": Case(partial(Mixer2RMSNormGated, HIDDEN, 2), two),
    "LayerNorm": Case(partial(layernorm.LayerNorm, HIDDEN), one),
    "GeluAndMul": Case(activation.GeluAndMul, one),
    "NewGELU": Case(activation.NewGELU, one),
    "QuickGELU": Case(activation.QuickGELU, one),
    "ReLU2": Case(activation.ReLU2, one),
    "MRotaryEmbedding, one axis": Case(partial(MRotaryEmbedding, *ROPE, torch.float32, [4, 2, 2]), turned),
    "MRotaryEmbedding, three axes": Case(
        partial(MRotaryEmbedding, *ROPE, torch.float32, [4, 2, 2]), partial(turned, 3)
    ),
    "DeepseekScalingRotaryEmbedding": Case(
        partial(DeepseekScalingRotaryEmbedding, *ROPE, 8.0, torch.float32, device="cpu"),
        partial(turned, 0, (4, 2)),
    ),
    "TopK": Case(partial(TopK, 2, layer_id=0), lambda: (normal(ROWS, HIDDEN), normal(ROWS, EXPERTS, seed=1))),
}


def made(case: Case) -> torch.nn.Module:
    """The op on the device, its weights no longer what they are at first."""
    with get_parallel().override(tp_rank=0, tp_size=1):
        op = case.make().to(DEVICE)
    for at, weight in enumerate(op.parameters()):
        weight.requires_grad_(False).copy_(normal(*weight.shape, seed=7 + at))
    return op


def region(case: Case, op: torch.nn.Module) -> Callable[..., list[torch.Tensor]]:
    def called(*arguments: torch.Tensor) -> list[torch.Tensor]:
        answer = case.call(op, *arguments)
        first, *rest = [answer] if isinstance(answer, torch.Tensor) else answer
        return [cut(first), *rest]

    return called


def run(call: Callable[..., list[torch.Tensor]], case: Case) -> list[torch.Tensor]:
    """What the call answers, and its arguments after it, in host memory."""
    arguments = [argument.to(DEVICE) for argument in case.arguments()]
    return [tensor.cpu() for tensor in (*call(*arguments), *arguments)]


def ended(name: str, mode: str) -> Compiled:
    """How the compiled call ended; `left` is an error where the registered forward took no part."""
    case = CASES[name]
    with torch.inference_mode():
        expected, op = run(region(case, made(case)), case), made(case)
        if mode == CALLED_BEFORE:
            run(region(case, op), case)
        torch._dynamo.reset()
        counters.clear()
        call = torch.compile(region(case, op), **MODES.get(mode, MODES["fullgraph"]))
        served = snapshot()["example_oot.fused_ops.calls"]
        try:
            first, again = run(call, case), run(call, case)
        except Exception as error:  # noqa: BLE001 - that the tracer fails is an answer
            return Compiled(False, 0, type(error).__name__)
    if snapshot()["example_oot.fused_ops.calls"] == served:
        return Compiled(False, 0, "left")
    same = all(len(got) == len(expected) and all(map(torch.equal, got, expected)) for got in (first, again))
    return Compiled(same, sum(counters["graph_break"].values()))


def register_with_sglang() -> None:
    """The same forwards, on SGLang's own classes."""
    for cls in {type(made(case)) for case in CASES.values()}:
        cls.register_oot_forward(cls, fused_ops._forward_for(cls), KEY)


def main(framework: str = "ours") -> None:
    set_global_server_args_for_scheduler(ServerArgs(model_path="dummy"))
    if framework != "ours":
        register_with_sglang()
    modes = (*MODES, CALLED_BEFORE)
    cells = {name: {mode: ended(name, mode) for mode in modes} for name in CASES}
    print(json.dumps(cells))


if __name__ == "__main__":
    main(*sys.argv[1:])
