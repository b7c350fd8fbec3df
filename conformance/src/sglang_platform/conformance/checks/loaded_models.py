"""Level 2: what the platform does to a model whose weights are loaded, and loaded again."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject


@check(
    level=Level.CONTRACT,
    needs="device",
    fix="change the layout or the class of what you know, in place, and keep names, shapes and dtypes of parameters:"
    " updates of the weights find them by name, and a draft model comes after the model",
)
def post_load_model_keeps_the_model(subject: Subject) -> None:
    """`post_load_model(model)` answers None, and a model of plain torch layers has the same parameters, buffers and
    modes afterwards, those that were one are one, and it computes the same, also with other weights that are loaded by
    their names afterwards, when it is called for a second model, and again for the first, which has no more hooks
    then."""
    subject.parts.init_backend()
    models = [_model(subject, seed) for seed in range(2)]
    plain = [_model(subject, seed) for seed in range(2)]
    tokens = torch.arange(8, device=subject.device)
    hooks: dict[int, int] = {}
    for turn, which in enumerate((0, 1, 0, 0)):
        model = models[which]
        before = _described(model)
        if which in hooks:
            for one in (model, plain[which]):
                _update(subject, one, turn)
        expected = _answers(plain[which], tokens)
        answer = subject.platform.post_load_model(model)
        expect(
            answer is None,
            f"post_load_model() answers with a {type(answer).__name__}, not None: the host keeps the model that it has",
        )
        tied = _tied(model)
        expect(
            tied == _TIED,
            f"parameters that were one are {' and '.join(map(repr, _TIED))}, and after post_load_model() {tied}: an"
            " update of one does not reach the other, and a tied head takes as much memory again",
            fix="look for modules that share a parameter, and change it once: `for name, parameter in"
            " model.named_parameters(remove_duplicate=False)`",
        )
        after = _described(model)
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        what = "; ".join(f"{name} was {before.get(name)}, is {after.get(name)}" for name in changed[:3])
        expect(not changed, f"post_load_model() changes the parameters {', '.join(changed)}: {what}")
        number = sum(
            len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
        )
        expect(
            number <= hooks.setdefault(which, number),
            f"after post_load_model() the modules have {hooks[which]} hooks, and {number} when it is called again:"
            " every step runs them all",
            fix="look whether the module was prepared before, or remove the hook that was registered then",
        )
        _expect_alike(_answers(model, tokens), expected, " of updated weights" if turn > 1 else "")
        for one in (model, plain[which]):
            _update(subject, one, 10 + turn)
        when = " and an update of its weights in place, which calls nothing,"
        _expect_alike(_answers(model, tokens), _answers(plain[which], tokens), when)


def _answers(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        answers: torch.Tensor = model(tokens).float().cpu()
    return answers


def _expect_alike(got: torch.Tensor, expected: torch.Tensor, when: str) -> None:
    off = float((got - expected).abs().max())
    expect(
        off <= 1e-3 * float(expected.abs().max()),
        f"after post_load_model(){when} a model of plain layers computes otherwise, by {off:.3g}",
    )


def _described(model: Any) -> dict[str, Any]:
    """What must stay of it: parameters and buffers by name, and the mode of each module."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    found: dict[str, Any] = {
        name: (
            tuple(p.shape),
            str(p.dtype),
            p.device.type,
            "with gradients" if p.requires_grad else "without",
        )
        for name, p in tensors
    }
    return found | {
        f"mode of {name or 'the model'}": "training" if module.training else "serving"
        for name, module in model.named_modules()
    }


def _model(subject: Subject, seed: int) -> Any:
    """Token ids -> logits, through layers that every model has, as the host loads it: to be served, not trained."""
    layers = torch.nn.Sequential(
        torch.nn.Embedding(16, 32),
        torch.nn.Linear(32, 64),
        torch.nn.SiLU(),
        torch.nn.BatchNorm1d(64),
        torch.nn.LayerNorm(64),
        torch.nn.Linear(64, 32),
        torch.nn.Linear(32, 16, bias=False),
    )
    layers = layers.to(subject.device).eval().requires_grad_(False)
    layers[6].weight = layers[0].weight
    _update(subject, layers, seed)
    return layers


_TIED = [["0.weight", "6.weight"]]
"""Names of the parameters of that model that are one: its embedding and its head."""


def _tied(model: Any) -> list[list[str]]:
    """The names of parameters that lie in the same memory."""
    names: dict[tuple[Any, ...], list[str]] = {}
    for name, one in model.named_parameters(remove_duplicate=False):
        names.setdefault((one.untyped_storage()._cdata, one.storage_offset()), []).append(name)
    return [together for together in names.values() if len(together) > 1]


def _update(subject: Subject, model: Any, seed: int) -> None:
    """Give it weights of its own, by the names of its parameters, as the host loads them."""
    generator = torch.Generator().manual_seed(subject.seed + seed)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
        for norm in (model[3], model[4]):  # as many models have them: alike, and not one
            norm.weight.fill_(1.0)
