"""A graph for a device without one: record the operators of a run once, replay them on the same tensors.

A vendor deletes this file if the device has graphs of its own (`torch.cuda.CUDAGraph` and the like).

Capture runs the function under a `TorchDispatchMode`, which sees every operator that reaches the dispatcher, and
keeps the tensors. Replay calls the operators again, each writing into the tensors of the capture, so every address is
the same and none is allocated. What a tape cannot hold is refused at capture, not replayed wrongly: reading a tensor's
value into Python, and results whose shape depends on values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["GraphCaptureError", "TapeGraph"]


class GraphCaptureError(RuntimeError):
    """The captured function did something that a graph cannot replay."""


class TapeGraph:
    """The recorded operators of one run, in order. `replay()` runs them again in place."""

    computes_at_capture = True

    def __init__(self) -> None:
        self._steps: list[Callable[[], Any]] = []

    def capture(self, run: Callable[[], Any]) -> Any:
        """Call `run()` and record it; return its result, whose tensors each replay rewrites.

        Raises GraphCaptureError naming the operator that cannot be captured.
        """
        recorder = _Recorder()
        with torch.no_grad(), _NoValuesInPython(), recorder:
            result = run()
        self._steps = [step for call in recorder.calls if (step := _replay_step(*call)) is not None]
        return result

    def replay(self) -> None:
        """Recompute every recorded tensor from the inputs as they are now."""
        with torch.no_grad():
            for step in self._steps:
                step()

    def __len__(self) -> int:
        return len(self._steps)


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        _refuse_dynamic(func, args)
        result = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, result))
        return result


class _NoValuesInPython(TorchFunctionMode):
    """Tensor values that leave for Python without an operator would be frozen into the tape unseen."""

    _READS = frozenset(
        {"tolist", "numpy", "__array__", "item", "__bool__", "__int__", "__float__", "__index__"}
    )

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in self._READS and args and isinstance(args[0], torch.Tensor):
            raise GraphCaptureError(
                f"Tensor.{name}() cannot be captured: it reads a value into Python, which a replay would not see change"
            )
        return func(*args, **(kwargs or {}))


_DYNAMIC = {"nonzero", "masked_select", "unique_dim", "_unique2", "unique_consecutive", "_local_scalar_dense"}


def _refuse_dynamic(func: Any, args: tuple[Any, ...]) -> None:
    name = func._schema.name.split("::")[1]
    by_mask = name == "index" and any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in args[1])
    if name in _DYNAMIC or by_mask:
        raise GraphCaptureError(
            f"operator {func} cannot be captured: its result depends on values, not on shapes alone"
        )


def _replay_step(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Callable[[], Any] | None:
    """What a replay does for one recorded call; None where the recorded tensors already are the result."""
    schema = func._schema
    if any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
        return partial(_call(func), *args, **kwargs)
    outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    if not outputs or any(r.alias_info is not None for r in schema.returns):
        return None  # a view of a recorded tensor
    if schema.name in ("aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided"):
        return None  # memory without content
    out = _out_variant(func)
    if out is not None and len(outputs) == 1:
        return partial(_call(out[0]), *args, **kwargs, **{out[1]: outputs[0]})

    def recompute() -> None:
        fresh = [t for t in tree_leaves(func(*args, **kwargs)) if isinstance(t, torch.Tensor)]
        for kept, new in zip(outputs, fresh, strict=True):
            kept.copy_(new)

    return recompute


def _call(overload: Any) -> Callable[..., Any]:
    # The dispatcher's own entry: the Python call of an OpOverload costs as much again as a small operator.
    return overload._op  # type: ignore[no-any-return]


def _out_variant(func: Any) -> tuple[Any, str] | None:
    """The overload of `func` that writes into a given tensor, and the keyword it takes that tensor by."""
    wanted = [(a.name, str(a.type)) for a in func._schema.arguments]
    packet = func.overloadpacket
    for name in packet.overloads():
        overload = getattr(packet, name)
        arguments = overload._schema.arguments
        outs = [a for a in arguments if a.is_out]
        rest = [(a.name, str(a.type)) for a in arguments if not a.is_out]
        # A factory's dtype, layout and device are the out tensor's, and its out variant does not take them.
        if len(outs) == 1 and rest == wanted:
            return overload, outs[0].name
    return None
