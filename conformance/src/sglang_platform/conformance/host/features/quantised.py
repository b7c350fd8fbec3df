"""Checkpoints whose weights are quantised: served from what the numbers stand for, or refused before a worker runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.features.record import EngineLaunch, RefusedBeforeLaunch, feature
from sglang_platform.conformance.host.features.running import Running
from sglang_platform.conformance.host.quantised_checkpoint import make_quantised, make_unknown

__all__: list[str] = []

_GROUP = "Quantised checkpoints"
_FIX = (
    "declare in supported_quantization only what get_quantization_config() answers for: the other formats are read "
    "back by core while the weights are loaded"
)
_LENGTHS = (5, 64, 300, 17)
_NEW_TOKENS = 16
_TITLES = {
    "fp8": "fp8, a scale per tensor",
    "fp8-block": "fp8, a scale per block",
    "awq": "AWQ, 4 bits",
    "gptq": "GPTQ, 4 bits",
    "int8": "compressed-tensors, 8-bit integers",
}


def _register(name: str, title: str) -> None:
    def prepare(models: Path) -> Mapping[str, Any]:
        return {"model_path": str(make_quantised(models, name)[0])}

    def proof(run: Running) -> None:
        run.engine  # noqa: B018 - makes the checkpoints
        _, stands_for = make_quantised(run.models, name)
        prompts = reference.prompts(_LENGTHS, seed=7)
        wanted = reference.greedy(stands_for, prompts, _NEW_TOKENS)
        run.gives_the_tokens(prompts, _NEW_TOKENS, wanted=wanted)

    proof.__name__ = f"checkpoint_{name.replace('-', '_')}"
    proof.__doc__ = (
        f"A checkpoint in {title}, gives the tokens of the model with the weights that its numbers stand for."
    )
    decorate: Callable[..., Any] = feature(
        group=_GROUP, title=title, launch=EngineLaunch(f"quantised-{name}", prepare=prepare), fix=_FIX
    )
    decorate(proof)


for _name, _title in _TITLES.items():
    _register(_name, _title)


def _prepare_unknown(models: Path) -> Mapping[str, Any]:
    return {"model_path": str(make_unknown(models))}


@feature(
    group=_GROUP,
    title="a format without a reader",
    launch=EngineLaunch("quantised-unknown", prepare=_prepare_unknown),
    fix=_FIX,
)
def checkpoint_unknown(run: Running) -> None:
    """A format that neither the platform nor core can serve is refused in words, before a worker runs."""
    try:
        run.engine  # noqa: B018 - is to be refused
    except RefusedBeforeLaunch as refused:
        words = str(refused)
        expect(
            "quantised checkpoint" in words or "quantization" in words.lower(),
            f"the launch is refused, and not for the checkpoint's format: {words}",
        )
        return
    expect(False, "a checkpoint in a format that nothing here reads is served")
