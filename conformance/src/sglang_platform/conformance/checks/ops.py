"""Level 4: the fused ops against float64."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import ops as oracle
from sglang_platform.conformance.oracles.attention import Expected, worst_element
from sglang_platform.conformance.requirement import fused_ops
from sglang_platform.conformance.subject import Subject
from sglang_platform.conformance.tolerance import CURRENT

_SERVED_WIDTHS = (2880, 3584, 7168, 16384)
"""Of hidden states that are served, up to the widest; two are no multiple of 1,024."""

_MOST_WEIGHTS = 1 << 24


@dataclass(frozen=True)
class OpCase:
    tokens: int
    width: int
    dtype: str


def rows(subject: Subject, rng: random.Random) -> Iterator[OpCase]:
    """Widths that divide into vectors and widths that do not."""
    dtypes = compute_dtypes(subject)
    sizes = [(1, 8), (1, 64), (3, 128), (2, 96), (7, 130), (16, 512), (5, 1000), (33, 2048), (0, 64)]
    sizes += [(3, model) for model in _SERVED_WIDTHS] + [(1100, 128), (257, 896)]
    own = {width for model in subject.models for width in (model.hidden, model.inner) if width}
    sizes += [(3, width) for width in sorted(own - set(_SERVED_WIDTHS))]
    for at, (tokens, width) in enumerate(sizes * len(dtypes)):
        yield OpCase(tokens, width, dtypes[(at + at // len(sizes)) % len(dtypes)])


def _forward(subject: Subject, op: str) -> Callable[..., Any]:
    for entry in subject.fused_ops():
        if entry.op_cls.op == op:
            return entry.forward  # type: ignore[no-any-return]
    raise NotApplicable(f"the platform registers no {op}: the host's native one is used")


@contextmanager
def _only_lent(**tensors: torch.Tensor) -> Iterator[None]:
    """Raises CheckFailed where one of them is changed meanwhile: other layers read them again."""
    before = {name: tensor.cpu().clone() for name, tensor in tensors.items()}
    yield
    for name, tensor in tensors.items():
        expect(
            torch.equal(tensor.cpu(), before[name]),
            f"the op changes {name}, which other layers and later steps read again",
            fix=f"do not write to {name}",
        )


def _judge(
    got: Any, expected: Expected, what: str, fix: str | None = None, *, dtype: torch.dtype | None = None
) -> None:
    expect(
        isinstance(got, torch.Tensor) and got.shape == expected.value.shape,
        f"{what} comes as {list(got.shape) if isinstance(got, torch.Tensor) else got!r};"
        f" it must be {list(expected.value.shape)}",
    )
    expect(
        dtype is None or got.dtype == dtype,
        f"{what} comes as {got.dtype}; it must be {dtype}",
        fix="answer in the type of the input",
    )
    ratio, where = worst_element(got.cpu(), expected)
    if CURRENT.judged(ratio, got.dtype) > 1:
        raise CheckFailed(
            f"{what} at {where} is {float(got[where]):.6g}, and must be {float(expected.value[where]):.6g}"
            f" (within {float(expected.bound[where]):.2g})",
            fix=fix,
        )


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=rows,
    fix="x / sqrt(mean(x^2) + epsilon) * weight: the mean over the whole row, in float32, epsilon inside the root",
)
def rms_norm(subject: Subject, case: OpCase) -> None:
    """RMS normalisation, of rows of any width, also where they are a slice of wider ones."""
    forward = _forward(subject, "layernorm.rms_norm")
    x, weight = _random(subject, case, case.width), _random(subject, case, case.width, tokens=1)[0]
    for epsilon in (1e-6, 0.1):
        op = _norm_op(weight, epsilon, case)
        with _only_lent(x=x, weight=op.weight):  # x goes on as the residual
            got = forward(op, x)
        _judge(got, oracle.rms_norm(x.cpu(), weight.cpu(), epsilon), "rms_norm", dtype=x.dtype)
    wide = torch.cat((x, torch.ones_like(x)), dim=-1)[:, : case.width]
    expected = oracle.rms_norm(x.cpu(), weight.cpu(), 0.1)
    _judge(
        forward(op, wide), expected, "rms_norm of a slice", fix="use the row stride of x, or copy it first"
    )


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=rows,
    fix="answer (norm of x + residual, x + residual): the residual goes on unnormalised",
)
def fused_add_rms_norm(subject: Subject, case: OpCase) -> None:
    """The residual is added before the normalisation, and handed on as the sum."""
    forward = _forward(subject, "layernorm.rms_norm")
    x, residual = _random(subject, case, case.width), _random(subject, case, case.width) * 3
    weight = _random(subject, case, case.width, tokens=1)[0]
    expected = oracle.fused_add_rms_norm(x.cpu(), residual.cpu(), weight.cpu(), 1e-5)
    with _only_lent(weight=weight):
        got = forward(_norm_op(weight, 1e-5, case), x.clone(), residual.clone())
    expect(
        isinstance(got, tuple) and len(got) == 2,
        f"with a residual the answer is {type(got).__name__}, not a pair",
    )
    _judge(got[0], expected[0], "the normalised sum", dtype=x.dtype)
    _judge(got[1], expected[1], "the new residual", dtype=x.dtype)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=rows,
    fix="silu(first half) * second half: x is [tokens, 2 * width], the gate comes first",
)
def silu_and_mul(subject: Subject, case: OpCase) -> None:
    """The gated activation, also for large negative gates."""
    forward = _forward(subject, "activation.silu_and_mul")
    x = _random(subject, case, 2 * case.width) * 4
    if case.tokens:
        x[0, 0] = -80.0
    _judge(forward(SimpleNamespace(), x.clone()), oracle.silu_and_mul(x.cpu()), "silu_and_mul", dtype=x.dtype)


@dataclass(frozen=True)
class Rotation:
    """`positions`: how many the model has; `sliced`: queries and keys are slices of one projection."""

    tokens: int
    heads: tuple[int, int]
    head_size: int
    rotary_dim: int
    style: str
    dtype: str
    positions: int = 64
    sliced: bool = False


def rotations(subject: Subject, rng: random.Random) -> Iterator[Rotation]:
    dtypes, at = compute_dtypes(subject), 0
    for tokens, heads in ((1, (1, 1)), (3, (4, 2)), (17, (8, 1))):
        for head_size, rotary_dim in ((16, 16), (64, 32), (128, 128), (80, 80)):
            for style in ("neox", "gptj"):
                yield Rotation(tokens, heads, head_size, rotary_dim, style, dtypes[at % len(dtypes)])
                at += 1
    # Of served models: Llama 3.1 over its 128k positions, GLM-4 with half of a head, Qwen3-Next with a quarter, Phi-3.
    yield Rotation(9, (32, 8), 128, 128, "neox", dtypes[0], 131072, sliced=True)
    yield Rotation(9, (32, 2), 128, 64, "gptj", dtypes[0], 32768, sliced=True)
    yield Rotation(300, (16, 2), 256, 64, "neox", dtypes[-1], 4096, sliced=True)
    yield Rotation(5, (32, 32), 96, 96, "neox", dtypes[0], 4096)


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=rotations,
    fix="pairs are (i, i + rotary_dim / 2) in the neox style, (2 i, 2 i + 1) in the gptj style; what lies behind"
    " rotary_dim stays; the cache holds cosines, then sines",
)
def rotary_embedding(subject: Subject, case: Rotation) -> None:
    """Queries and keys are rotated by their position, in both styles, whole heads and parts of them."""
    forward = _forward(subject, "rotary.rotary_embedding")
    dtype, device = getattr(torch, case.dtype), subject.device
    generator = subject.torch_rng()
    limit = case.positions
    angles = torch.arange(limit)[:, None] * 10000.0 ** (
        -torch.arange(case.rotary_dim // 2) * 2 / case.rotary_dim
    )
    cache = torch.cat((angles.cos(), angles.sin()), dim=-1).to(dtype)
    positions = torch.randint(0, limit, (case.tokens,), generator=generator)
    query, key = (
        torch.randn(case.tokens, heads * case.head_size, generator=generator).to(dtype)
        for heads in case.heads
    )
    op = SimpleNamespace(
        cos_sin_cache=cache.to(device),
        head_size=case.head_size,
        rotary_dim=case.rotary_dim,
        is_neox_style=case.style == "neox",
        max_position_embeddings=limit,
        dtype=dtype,
    )
    if case.tokens:
        positions[0] = limit - 1
    given = positions.to(device), query.clone().to(device), key.clone().to(device)
    if case.sliced:
        widths = (query.shape[1], key.shape[1], 16)
        fused = torch.cat((query, key, torch.ones(case.tokens, 16, dtype=dtype)), dim=1).to(device)
        given = given[0], *fused.split(widths, dim=1)[:2]
    with _only_lent(positions=given[0], cos_sin_cache=op.cos_sin_cache):
        got = forward(op, *given)
    for name, out, x in zip(("query", "key"), got, (query, key), strict=True):
        _judge(
            out,
            oracle.rotary_embedding(positions, x, case.head_size, cache, case.style == "neox"),
            f"the {name}",
            dtype=dtype,
        )


@dataclass(frozen=True)
class Experts:
    tokens: int
    experts: int
    topk: int
    hidden: int
    inner: int
    dtype: str


def experts(subject: Subject, rng: random.Random) -> Iterator[Experts]:
    dtypes = compute_dtypes(subject)
    for at, (tokens, count, topk, hidden, inner) in enumerate(
        (
            (1, 2, 1, 16, 16), (3, 4, 2, 32, 16), (17, 8, 3, 64, 48), (5, 5, 5, 32, 64),
            (0, 4, 2, 32, 16), (130, 16, 4, 64, 32), (4, 128, 8, 64, 48), (40, 1, 1, 32, 16),
        )
    ):  # fmt: skip
        yield Experts(tokens, count, topk, hidden, inner, dtypes[at % len(dtypes)])
    for at, model in enumerate(subject.models):
        if model.experts and model.experts_per_token:
            hidden, inner = model.hidden, model.expert_inner or model.inner
            # The number of experts is the model's; rows are halved until the weights fit beside their float64.
            while model.experts * hidden * inner > _MOST_WEIGHTS:
                hidden, inner = hidden // 2, max(16, inner // 2)
            yield Experts(5, model.experts, model.experts_per_token, hidden, inner, dtypes[at % len(dtypes)])


@check(
    level=Level.KERNELS,
    requires=[fused_ops()],
    cases=experts,
    fix="sum over the chosen experts of weight * w2 (silu(gate) * up), with (gate, up) = w13 x; gate rows come first",
)
def moe_experts(subject: Subject, case: Experts) -> None:
    """Every token goes through the experts chosen for it, with their weights."""
    forward = _forward(subject, "moe.experts")
    dtype, device, generator = getattr(torch, case.dtype), subject.device, subject.torch_rng()

    def random_of(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype).to(device)

    x = random_of(case.tokens, case.hidden)
    layer = SimpleNamespace(
        w13_weight=random_of(case.experts, 2 * case.inner, case.hidden) * 0.25,
        w2_weight=random_of(case.experts, case.hidden, case.inner) * 0.25,
    )
    chosen = [torch.randperm(case.experts, generator=generator)[: case.topk] for _ in range(case.tokens)]
    ids = torch.cat(chosen or [torch.empty(0)]).reshape(-1, case.topk).to(torch.int32).to(device)
    weights = torch.rand(case.tokens, case.topk, generator=generator).to(device) + 0.1
    config = SimpleNamespace(
        activation="silu",
        is_gated=True,
        no_combine=False,
        gemm1_alpha=None,
        gemm1_clamp_limit=None,
        swiglu_limit=None,
        apply_router_weight_on_input=False,
        routed_scaling_factor=None,
    )
    lent = {"x": x, "topk_weights": weights, "topk_ids": ids, "w13": layer.w13_weight, "w2": layer.w2_weight}
    with _only_lent(**lent):  # x is what shared experts read
        got = forward(SimpleNamespace(with_bias=False), layer, x, weights, ids, config)
    if got is NotImplemented:
        raise NotApplicable("the op leaves plain SwiGLU experts to the host")
    expected = oracle.moe_experts(
        x.cpu(), layer.w13_weight.cpu(), layer.w2_weight.cpu(), weights.cpu(), ids.cpu()
    )
    _judge(got, expected, "the sum of the experts", dtype=dtype)


def _random(subject: Subject, case: OpCase, width: int, tokens: int | None = None) -> torch.Tensor:
    # Another stream for every width and number of rows, the same for every run.
    generator = torch.Generator().manual_seed(subject.seed + 31 * width + (tokens or 0))
    count = case.tokens if tokens is None else tokens
    return torch.randn(count, width, generator=generator).to(getattr(torch, case.dtype)).to(subject.device)


def _norm_op(weight: torch.Tensor, epsilon: float, case: OpCase) -> Any:
    return SimpleNamespace(
        weight=torch.nn.Parameter(weight, requires_grad=False),
        variance_epsilon=epsilon,
        hidden_size=case.width,
        variance_size_override=None,
        override_orig_dtype=None,
        fp32_residual=False,
        cast_x_before_out_mul=False,
    )
