"""Level 5: the graph backends that the host's own runners use: whole graphs of a draft model, pieces of a prefill."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, check, expect
from sglang_platform.conformance.fixtures.captured_function import CapturedFunction, stream_of
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import capability, graph_capture
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SIZES = (8, 3, 1)


@check(
    level=Level.GRAPHS,
    requires=[graph_capture()],
    hosts=["none"],
    fix="capture forward_fn under its key and answer each replay with that key's own output, computed anew from the"
    " static inputs",
)
def full_graph_backend_replays(subject: Subject) -> None:
    """`get_full_graph_backend_cls()`: each key replays what its function computes from the inputs and weights of now,
    in outputs that no other key writes; an unknown key, and any after `cleanup()`, is refused."""
    cls = subject.platform.get_full_graph_backend_cls()
    if cls is None:
        raise NotApplicable(
            "get_full_graph_backend_cls() answers None: the host's draft models run without graphs"
        )
    function = CapturedFunction(subject, max(_SIZES))
    backend: Any = cls(function.runner())
    with torch.no_grad(), backend.capture_session(stream_of(subject)):
        for n in _SIZES:
            backend.capture_one(n, lambda n=n: function.run(n))
    for change in ("other inputs", "weights changed in place", "other inputs again"):
        function.change_weights() if "weights" in change else function.fill()
        outputs = {}
        with torch.no_grad(), backend.replay_session():
            for n in (3, 8, 1):
                expect(
                    backend.can_run(SimpleNamespace(batch_size=n), n),
                    f"can_run() says no to the captured key {n}",
                )
                outputs[n] = backend.replay(n, SimpleNamespace(batch_size=n))
        for n, output in outputs.items():
            problem = function.off(output, n)
            expect(
                problem is None,
                f"with {change}, the replay of {n} rows {problem}, once the other keys were replayed",
                case={"rows": n, "after": change},
            )
    expect(
        not backend.can_run(SimpleNamespace(batch_size=5), 5),
        "can_run() says yes to 5 rows, which nobody captured",
    )
    backend.cleanup()
    expect(not backend.can_run(SimpleNamespace(batch_size=3), 3), "can_run() says yes after cleanup()")


@check(
    level=Level.GRAPHS,
    requires=[capability("piecewise_graph")],
    hosts=["none"],
    fix="replay the graph of the token count, computed anew from the tensors that are passed, and run the piece itself"
    " for every other count",
)
def pieces_replay_what_they_compute(subject: Subject) -> None:
    """`get_piecewise_backend_cls()`, built and called as the host's compiler does: for token counts that are captured
    and for others, with other inputs, with weights changed in place and with tensors that lie elsewhere, each call
    gives what the piece computes."""
    cls: Any = subject.platform.get_piecewise_backend_cls()
    if cls is None:
        raise NotApplicable(
            "get_piecewise_backend_cls() answers None: contract.graph_capture_has_a_runner says more"
        )
    function = CapturedFunction(subject, max(_SIZES))
    config = SimpleNamespace(get_capture_sizes=lambda: list(_SIZES[:2]))
    handle = getattr(getattr(torch, subject.device.type, None), "graph_pool_handle", None)
    pool = handle() if handle is not None and subject.device.type != "cpu" else None
    backends = [cls(None, config, {}, pool, index, 2, [1], function.piece, None) for index in range(2)]
    elsewhere = torch.empty_like(function.inputs)
    for turn in range(5):
        if turn == 3:
            function.change_weights()
        for n in (*_SIZES[:2], 5):
            function.fill()
            for index, backend in enumerate(backends):
                _call(
                    function, backend, function.inputs[:n], n, f"piece {index}, call {turn + 1} of {n} tokens"
                )
    elsewhere.copy_(function.inputs)
    _call(
        function,
        backends[0],
        elsewhere[:3],
        3,
        "piece 0, with tensors that lie elsewhere than at its capture,",
    )


def _call(function: CapturedFunction, backend: Any, x: torch.Tensor, n: int, what: str) -> None:
    with torch.no_grad():
        got = backend(x, n, *function.weights)
    problem = function.off(got, n)
    expect(problem is None, f"{what} {problem}", case={"tokens": n})
