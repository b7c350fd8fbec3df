"""The piecewise backend: one compiled piece of a model, captured once per token count and replayed in prefill.

`torch.compile` cuts a model's forward at its attention layers, which stay eager; the code between two of them is a
piece. SGLang 0.5.11 to 0.5.21 build one object of this class per piece and call it in place of the piece; 0.5.22 and
later refuse the argument that asked for it (`model_executor/cuda_graph_config.py`, `parse_cuda_graph_backend_arg`).
This class holds the part that all devices share. A device writes `record`, as for `GraphRunner`.

The caller pads: it rounds a prefill up to one of the token counts and passes tensors at the addresses of the capture
(static inputs, outputs of earlier pieces). Each replay checks the addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from sglang_platform.core.contract.parts import Part
from sglang_platform.core.counters import counter
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.graph.runner import Graph

__all__ = ["CapturedPiece", "PiecewiseBackend"]

_captures = counter("piecewise.captures")
_replays = counter("piecewise.replays")
_without = counter("piecewise.without_graph")


class CapturedPiece(NamedTuple):
    """One token count: its graph, the output the graph writes, and the addresses and sizes of the arguments at
    capture."""

    graph: Graph
    output: Any
    arguments: tuple[Any, ...]


class PiecewiseBackend(Part):
    """Replaces one piece: constructed with the host's nine arguments, called with the piece's arguments.

    `compile_config.get_capture_sizes()` lists the token counts to capture; `sym_shape_indices` says which arguments are
    sizes, the first of them the token count; `compiled_graph_for_general_shape` is the piece itself, for any count;
    `graph_pool` is the result of `graph_pool_handle()` of the device's torch module. For each token count the first
    call runs the piece, the second captures it, later ones replay. A token count that is not listed runs the piece.
    """

    def __init__(
        self,
        graph: Any,
        compile_config: Any,
        inductor_config: dict[str, Any],
        graph_pool: Any,
        piecewise_compile_index: int,
        total_piecewise_compiles: int,
        sym_shape_indices: Sequence[int],
        compiled_graph_for_general_shape: Callable[..., Any],
        sglang_backend: Any,
    ) -> None:
        self.token_counts = frozenset(compile_config.get_capture_sizes())
        if min(self.token_counts, default=0) < 1:
            raise PlatformError(
                f"{type(self).__name__} cannot capture the token counts {sorted(self.token_counts)}",
                why="a piece is captured for one token or more",
                fix="list token counts of 1 or more (--cuda-graph-bs-prefill), or none of this: "
                "--cuda-graph-backend-prefill disabled",
            )
        self.graph_pool = graph_pool
        self.index = piecewise_compile_index
        self.is_last = piecewise_compile_index == total_piecewise_compiles - 1
        self.sym_shape_indices = tuple(sym_shape_indices)
        self.piece = compiled_graph_for_general_shape
        self.compiler = sglang_backend
        self.device: Any = None
        self.captured: dict[int, CapturedPiece] = {}
        self._warm: set[int] = set()

    def record(self, run: Callable[[], Any]) -> tuple[Graph, Any]:
        """Call `run()` once under capture; return the graph and the output `run` returned. Written by the device.

        The output's tensors must be the ones that each `replay()` writes, and hold the result when this returns: a
        device whose capture does not compute replays once. `self.device` is where the piece's tensors live. A
        RuntimeError becomes a PlatformError that says what to do.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.record() must be implemented: capture run() and return a graph"
        )

    def keep(self, output: Any) -> Any:
        """The object to keep for a captured output between replays; a device whose memory pool outlives the tensors may
        keep non-owning references."""
        return output

    def may_capture(self) -> bool:
        """Whether the host allows captures now. The adapter overrides it with the host's answer."""
        return True

    def __call__(self, *args: Any) -> Any:
        tokens: int = args[self.sym_shape_indices[0]] if self.sym_shape_indices else 0
        if tokens not in self.token_counts:
            return self._without_graph(args)
        arguments = _identity(args)
        captured = self.captured.get(tokens)
        if captured is not None:
            if captured.arguments != arguments:
                return self._without_graph(args)  # a replay would read other memory than was passed
            _replays.add()
            captured.graph.replay()
            return captured.output
        if not self.may_capture():
            return self.piece(*args)
        if tokens not in self._warm:  # lazy initialisation must not be recorded
            self._warm.add(tokens)
            return self.piece(*args)
        self.device = next((x.device for x in args if hasattr(x, "data_ptr")), None)
        try:
            graph, output = self.record(partial(self.piece, *args))
        except NotImplementedError:
            raise
        except RuntimeError as error:
            raise PlatformError(
                f"{type(self).__name__}: piece {self.index} of the model could not be captured for {tokens} tokens",
                why=str(error).split("\n", 1)[0],
                fix="serve prefill without graphs (--cuda-graph-backend-prefill disabled), or capture fewer or smaller "
                "token counts (--cuda-graph-bs-prefill)",
            ) from error
        _captures.add()
        self.captured[tokens] = CapturedPiece(graph, self.keep(output), arguments)
        return output

    def _without_graph(self, args: tuple[Any, ...]) -> Any:
        _without.add()
        return self.piece(*args)


def _identity(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values that a graph bakes in from its arguments: addresses of tensors, and sizes."""
    return tuple(x.data_ptr() if hasattr(x, "data_ptr") else x for x in args)
