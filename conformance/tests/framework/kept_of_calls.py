"""Platforms that keep something of a call for the next, and others whose slots of drafts are wrong."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.core.ops.fused_op import RMSNorm, RotaryEmbedding
from sglang_platform.core.portable.torch.speculative import slots
from sglang_platform.example_oot import op_calls, ops
from sglang_platform.example_oot.platform import DISPATCH_KEY, ExampleOOTPlatform


class _WithOps(ExampleOOTPlatform):
    _forwards: dict[Any, Any] = {}

    def init_backend(self) -> None:
        super().init_backend()
        op_calls.register(self._forwards, DISPATCH_KEY)


def _of_another_epsilon(op: Any, epsilon: float, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return ops.rms_norm(SimpleNamespace(**{**vars(op), "variance_epsilon": epsilon}), x, *args, **kwargs)


_EPSILONS: dict[int, float] = {}
_TURNS: dict[str, Any] = {}


class EpsilonKept(_WithOps):
    """The epsilon of the first layer of a width serves all."""

    _forwards = {
        RMSNorm: lambda op, x, *args, **kwargs: _of_another_epsilon(
            op, _EPSILONS.setdefault(x.shape[-1], op.variance_epsilon), x, *args, **kwargs
        )
    }


class EpsilonOfItsOwn(_WithOps):
    """The epsilon is a constant."""

    _forwards = {RMSNorm: lambda op, x, *args, **kwargs: _of_another_epsilon(op, 0.05, x, *args, **kwargs)}


def _turns_of_the_step(op: Any, positions: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if _TURNS.get("of", lambda: None)() is not positions:
        _TURNS.update(of=weakref.ref(positions), table=op.cos_sin_cache)
    table = {"cos_sin_cache": _TURNS["table"]}
    return ops.rotary_embedding(SimpleNamespace(**{**vars(op), **table}), positions, *args, **kwargs)


def _positions_of_the_step(op: Any, positions: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if _TURNS.get("which", lambda: None)() is not positions:
        _TURNS.update(which=weakref.ref(positions), numbers=positions.clone())
    return ops.rotary_embedding(op, _TURNS["numbers"], *args, **kwargs)


class TurnsOfTheStep(_WithOps):
    """The table of the rotary embedding that a step asks first serves the others."""

    _forwards = {RotaryEmbedding: _turns_of_the_step}


class PositionsOfTheStep(_WithOps):
    """The numbers that a tensor of positions held first are taken for those that it holds."""

    _forwards = {RotaryEmbedding: _positions_of_the_step}


def _read(**given: Any) -> torch.Tensor:
    start, count = given["start_offset"], given["draft_token_num"]
    return slots.read_uniform_slots(given["req_to_token"], given["req_pool_indices"], start, count)


def _slots(function: Callable[..., Any], name: str) -> type[ExampleOOTPlatform]:
    def get_speculative_cache_locs_fn(self: Any) -> Any:
        return function

    members = {"get_speculative_cache_locs_fn": get_speculative_cache_locs_fn, "__module__": __name__}
    return type(name, (ExampleOOTPlatform,), members)


def _consecutive(**given: Any) -> torch.Tensor:
    rows = _read(**given).view(given["batch_size"], -1)
    return (rows[:, :1] + torch.arange(rows.shape[1], device=rows.device)).flatten()


def _first_rows(**given: Any) -> torch.Tensor:
    rows = torch.arange(given["batch_size"], device=given["req_pool_indices"].device)
    return _read(**{**given, "req_pool_indices": rows})


_TABLES: dict[tuple[int, ...], torch.Tensor] = {}


def _first_table(**given: Any) -> torch.Tensor:
    table = given["req_to_token"]
    return _read(**{**given, "req_to_token": _TABLES.setdefault(tuple(table.shape), table.clone())})


def _in_place(**given: Any) -> torch.Tensor:
    answer = _read(**given)
    given["start_offset"].add_(given["draft_token_num"])
    return answer


SLOTS: dict[str, tuple[type[ExampleOOTPlatform], str]] = {
    name: (_slots(function, f"Slots{at}"), says)
    for at, (name, function, says) in enumerate(
        (
            ("right", _read, ""),
            ("right, in 32 bits", lambda **given: _read(**given).int(), ""),
            ("consecutive", _consecutive, "the table has"),
            ("of the first rows", _first_rows, "the table has"),
            ("of the first table", _first_table, "in step 1"),
            (
                "one too far",
                lambda **g: _read(**{**g, "start_offset": g["start_offset"] + 1}),
                "the table has",
            ),
            ("in 16 bits", lambda **given: _read(**given).short(), "the table has"),
            ("by requests", lambda **g: _read(**g).view(g["batch_size"], -1), "integers in one row"),
            ("as numbers", lambda **given: _read(**given).float(), "integers in one row"),
            ("with lengths counted up", _in_place, "changes start_offset"),
        )
    )
}
