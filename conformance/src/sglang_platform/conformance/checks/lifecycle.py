"""Level 2: the calls that the host makes once in a worker's life: what they answer, and what they leave behind."""

from __future__ import annotations

from typing import Any

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.checks.device import whoami
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import probe
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_KEPT = (
    "torch's default",
    "torch's gradients",
    "torch's inference",
    "torch's deterministic",
    "the root logger's",
    "the start method",
    "the working directory",
    "the umask",
    "the locale",
    "the signal handler",
    "the state of the random numbers",
)
"""What `init_backend()` must leave alone. It is there to set variables, start threads and load libraries."""


@check(
    level=Level.CONTRACT,
    needs="device",
    seconds=200,
    fix="register and load in init_backend(), set no defaults of the process, and do nothing a second time: a worker"
    " with a draft model calls it twice",
)
def init_backend_can_be_called_twice(subject: Subject) -> None:
    """In a fresh worker `init_backend()` answers None, leaves torch's defaults, the root logger, signals, random
    numbers and the start method as they were, and a second call changes nothing."""
    told = probe(
        "lifecycle", "it comes to its platform and calls init_backend()", seconds=180, **whoami(subject)
    )
    if "raised" in told:
        raise CheckFailed(
            f"{told.get('call', 'the first')} init_backend() raised {told['raised']}\n{told['trace']}"
        )
    expect(
        told["answered"] == ["None", "None"],
        f"init_backend() answered {' and '.join(told['answered'])}, and must answer None",
    )
    found = [one for group in told["changes"].values() for one in group if one.startswith(_KEPT)]
    expect(not found, f"init_backend() leaves traces: {'; '.join(found)}")
    again = told["again"]
    expect(not again, f"the second init_backend() registers other ops than the first: {', '.join(again)}")


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="change the layout or the class of what you know, in place, and keep names, shapes and dtypes of parameters:"
    " updates of the weights find them by name, and a draft model comes after the model",
)
def post_load_model_keeps_the_model(subject: Subject) -> None:
    """`post_load_model(model)` answers None, and a model of plain torch layers has the same parameters afterwards and
    computes the same, also when it is called for a second model and again for the first."""
    import torch

    subject.parts.init_backend()
    models = [_model(torch, subject, seed) for seed in range(2)]
    tokens = torch.arange(8, device=subject.device)
    for which in (0, 1, 0):
        model = models[which]
        before = {name: (tuple(p.shape), p.dtype, p.device.type) for name, p in model.named_parameters()}
        with torch.no_grad():
            expected = model(tokens).float().cpu()
        answer = subject.platform.post_load_model(model)
        expect(
            answer is None,
            f"post_load_model() answers {answer!r}, not None: the host keeps the model that it has",
        )
        after = {name: (tuple(p.shape), p.dtype, p.device.type) for name, p in model.named_parameters()}
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        expect(
            not changed,
            f"post_load_model() changes the parameters {', '.join(changed)}: {_two(before, after, changed)}",
        )
        with torch.no_grad():
            got = model(tokens).float().cpu()
        off = float((got - expected).abs().max())
        expect(
            off <= 1e-3 * float(expected.abs().max()),
            f"after post_load_model() a model of plain layers computes otherwise, by {off:.3g}",
        )


def _two(before: dict[str, Any], after: dict[str, Any], names: list[str]) -> str:
    return "; ".join(f"{name} was {before.get(name)}, is {after.get(name)}" for name in names[:3])


def _model(torch: Any, subject: Subject, seed: int) -> Any:
    """Token ids -> logits, through layers that every model has."""
    layers = torch.nn.Sequential(
        torch.nn.Embedding(16, 32),
        torch.nn.Linear(32, 64),
        torch.nn.SiLU(),
        torch.nn.LayerNorm(64),
        torch.nn.Linear(64, 16),
    )
    generator = torch.Generator().manual_seed(subject.seed + seed)
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return layers.to(subject.device)
