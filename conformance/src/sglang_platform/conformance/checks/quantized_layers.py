"""Level 4: linear layers, plain and of the platform's own quantisation methods, made and loaded as the host does."""

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
