"""Levels 2 and 4: weights that are loaded, quantised and updated, and what the platform does to a loaded model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

_FORMATS = ("w8a8_int8",)
"""Of which the suite makes weights: int8 [N, K], and a float32 scale for each of the N outputs."""

_PLAIN = "no quantisation"
"""The host's own method, around which the platform may have registered a wrapper."""

_ROWS = (1, 5, 40, 0, 300)
_SHAPES = ((64, 48), (130, 72), (1024, 1136))
"""(K, N)."""

_FIRST = "a layer"
_SECOND = "a second layer of the same shape"

_OF_THE_TYPE = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}


@dataclass(frozen=True)
class QuantizedLayer:
    method: str
    inputs: int
    outputs: int
    dtype: str
    bias: bool = False
    ignored: bool = False
    """The checkpoint names the layer among those that it leaves as they are."""

    @property
    def plain(self) -> bool:
        return self.ignored or self.method == _PLAIN


def quantized_layers(subject: Subject, rng: random.Random) -> Iterator[QuantizedLayer]:
    """Of the methods that the host makes layers of, and of those that the platform has of its own, in the types that
    they take."""
    dtypes = compute_dtypes(subject)
    for method in (_PLAIN, *subject.platform.supported_quantization):
        if method in (_PLAIN, *_FORMATS):
            shapes = [
                QuantizedLayer(method, *shape, dtypes[at % len(dtypes)], bias=at == 0)
                for at, shape in enumerate(_SHAPES)
            ]
            if method != _PLAIN:
                shapes.append(QuantizedLayer(method, *_SHAPES[0], dtypes[-1], ignored=True))
            yield from (case for case in shapes if method == _PLAIN or _is_served(subject, case))


def _config(subject: Subject, case: QuantizedLayer) -> Any:
    """Of a checkpoint; None for no quantisation, and for what the host's own method serves."""
    cls = None if case.method == _PLAIN else subject.platform.get_quantization_config(case.method)
    if cls is None:
        return None
    return cls.from_config({"ignore": [subject.parts.linear_prefix]} if case.ignored else {})


def _is_served(subject: Subject, case: QuantizedLayer) -> bool:
    """By the platform's own method, in that type, and with a list of layers that are ignored where one is asked for."""
    config = _config(subject, case)
    if config is None or getattr(torch, case.dtype) not in config.get_supported_act_dtypes():
        return False
    return not case.ignored or bool(getattr(config, "ignore", ()))


@check(
    level=Level.KERNELS,
    hosts=("sglang",),
    cases=quantized_layers,
    fix="multiply by the weights and scales that the layer has now; keep what is made of them on the layer itself, and"
    " nothing by address or shape",
)
def quantized_layers_follow_their_weights(subject: Subject, case: QuantizedLayer) -> None:
    """A plain linear layer of the host, in the wrappers that are registered, and one of `get_quantization_config()`, of
    weights of 8 bits with a scale for each output, give what their numbers stand for, with a bias and without, to no
    and to 300 rows, within what inputs of 8 bits may err by, and one that the checkpoint ignores is a plain one; so do
    another of the same shape beside it, and one whose weights are changed in place, as an update of weights does."""
    subject.parts.init_backend()  # which may register wrappers
    config = _config(subject, case)
    generator = subject.torch_rng()
    layers = {what: _Layer(subject, case, config, generator) for what in (_FIRST, _SECOND)}
    for what, layer in layers.items():
        layer.judge(what)
    if layers[_FIRST].changes_its_weights():
        layers[_FIRST].judge("a layer whose weights were changed in place")
        layers[_SECOND].judge(_SECOND)


class _Layer:
    """One of the host's, with random weights."""

    def __init__(
        self, subject: Subject, case: QuantizedLayer, config: Any, generator: torch.Generator
    ) -> None:
        self._subject, self._case, self._dtype = subject, case, getattr(torch, case.dtype)
        self._generator, self._shape = generator, (case.outputs, case.inputs)
        weight = self._numbers()
        self._scale = torch.ones(())
        self._layer = subject.parts.linear_layer(
            case.inputs, case.outputs, self._dtype, config, bias=case.bias
        )
        self._layer.weight_loader(self._layer.weight, weight)
        if not case.plain:
            self._scale = torch.rand(case.outputs, 1, generator=generator) * 0.01 + 0.001
            self._layer.weight_loader(self._layer.weight_scale, self._scale)
        self._bias = torch.randn(case.outputs, generator=generator).to(self._dtype) * 3
        if case.bias:
            self._layer.weight_loader(self._layer.bias, self._bias)
        self.weights = weight.double() * self._scale.double()
        self._layer.quant_method.process_weights_after_loading(self._layer)

    def _numbers(self) -> torch.Tensor:
        if self._case.plain:
            return torch.randn(self._shape, generator=self._generator).to(self._dtype)
        return torch.randint(-127, 128, self._shape, generator=self._generator, dtype=torch.int8)

    def changes_its_weights(self) -> bool:
        """Whether the layer has them in a form that is known here."""
        held, new = self._layer.weight.data, self._numbers()
        if held.dtype != new.dtype or sorted(held.shape) != sorted(self._shape):
            return False
        held.copy_(new if held.shape == new.shape else new.T)
        self.weights = new.double() * self._scale.double()
        return True

    def judge(self, what: str) -> None:
        what = f"{self._case.method}: {what}{', which the checkpoint ignores,' if self._case.ignored else ''}"
        fix = None
        if self._case.ignored:
            fix = "make what the host's own get_quant_method() makes of layers that are ignored"
        for rows in _ROWS:
            case = {"method": self._case.method, "ignored": self._case.ignored, "rows": rows}
            x = torch.randn(rows, self._case.inputs, generator=self._generator).to(self._dtype)
            with torch.no_grad():
                out = self._layer(x.to(self._subject.device))
            got = out[0] if isinstance(out, tuple) else out
            wanted = x.double() @ self.weights.T + self._bias.double() * self._case.bias
            expect(
                got.shape == wanted.shape and got.dtype == self._dtype,
                f"{what} answers {list(got.shape)} of {got.dtype} to {rows} rows of {x.dtype}",
                case=case,
                fix=fix,
            )
            if rows == 0:
                continue
            bound = _OF_THE_TYPE[self._case.dtype] * wanted.abs().amax()
            if not self._case.plain:  # inputs may have 8 bits, of whose step half may be lost
                step = x.double().abs().amax(1, keepdim=True) / 127
                bound = 0.6 * step * self.weights.abs().sum(1) + bound
            bound = bound.expand_as(wanted)
            off = (got.cpu().double() - wanted).abs()
            worst = tuple(torch.nonzero(off - bound == (off - bound).max())[0].tolist())
            expect(
                bool((off <= bound).all()),
                f"{what} gives, of {rows} rows, {got[worst].item():.5g} at {list(worst)}, and"
                f" must give {wanted[worst].item():.5g} (within {bound[worst].item():.2g})",
                case=case,
                fix=fix,
            )


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
