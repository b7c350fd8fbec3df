"""Level 5: the graph backends that the host's own runners use: whole graphs of a draft model, pieces of a prefill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.fixtures.captured_function import CapturedFunction, stream_of
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import capability, graph_capture
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SIZES = (8, 3, 1)
_LARGE = 8192
_MORE = 100.0
"""What the other function of a size adds."""


@dataclass(frozen=True)
class _Key:
    """As the host's keys are: of one size there may be several graphs (adapters, streams, forms of attention)."""

    size: int
    variant_label: str | None = None


_NESTED = _Key(8, "nested")


@check(
    level=Level.GRAPHS,
    requires=[graph_capture()],
    hosts=["none"],
    fix="capture forward_fn under its key and answer each replay with that key's own output, computed anew from the"
    " static inputs",
)
def full_graph_backend_replays(subject: Subject) -> None:
    """`get_full_graph_backend_cls()`: each key replays what its function computes from the inputs and weights of now,
    every tensor of it in the function's own nesting, whole numbers and single ones too, in outputs that no other key
    writes, keys of one size and other backends of the process included; a key that is captured again is the newer
    graph; the hook is called after the warm-up and before the capture; an unknown key, and any after `cleanup()`, is
    refused."""
    try:
        cls = subject.platform.get_full_graph_backend_cls()
    except NotImplementedError as refused:
        expect(str(refused), "get_full_graph_backend_cls() refuses without a word")
        raise NotApplicable(f"get_full_graph_backend_cls() refuses: {refused}") from refused
    if cls is None:
        raise NotApplicable(
            "get_full_graph_backend_cls() answers None: the host's draft models run without graphs"
        )
    function = CapturedFunction(subject, max(_SIZES))
    backend: Any = cls(function.runner())
    drafts = CapturedFunction(subject, max(_SIZES))
    drafts.change_weights()
    another: Any = cls(drafts.runner())
    with torch.no_grad(), _session(backend, "capture", stream_of(subject)):
        for n in _SIZES:
            _capture(backend, _Key(n), lambda n=n: function.run(n))
        _capture(backend, _Key(3, "other"), lambda: function.run(3) + _MORE)
        _capture(backend, _NESTED, lambda: _nested(function))
    with torch.no_grad(), _session(another, "capture", stream_of(subject)):
        _capture(another, _Key(3), lambda: drafts.run(3))
    for change, keys in (
        ("other inputs", (_Key(3), _Key(8), _Key(3, "other"), _Key(1), _NESTED)),
        ("weights changed in place", (_NESTED, _Key(3, "other"), _Key(1), _Key(3), _Key(8))),
        ("other inputs again", (_Key(3, "other"), _NESTED, _Key(8), _Key(1), _Key(3))),
    ):
        function.change_weights() if "weights" in change else function.fill()
        outputs = {}
        with torch.no_grad(), _session(backend, "replay"):
            for key in keys:
                batch = SimpleNamespace(batch_size=key.size)
                expect(backend.can_run(batch, key), f"can_run() says no to the captured key {key}")
                outputs[key] = backend.replay(key, batch)
            theirs = another.replay(_Key(3), SimpleNamespace(batch_size=3))
        _judge_nested(function, outputs.pop(_NESTED), change)
        for key, output in outputs.items():
            problem = function.off(output - _MORE if key.variant_label else output, key.size)
            which = f"{key.size} rows{' of another form' if key.variant_label else ''}"
            expect(
                problem is None,
                f"with {change}, the replay of {which} {problem}, once the other keys were replayed",
                case={"rows": key.size, "after": change},
            )
        problem = drafts.off(theirs, 3)
        expect(problem is None, f"with {change}, the replay of another backend's 3 rows {problem}")
    for unknown in (_Key(5), _Key(8, "other")):
        expect(
            not backend.can_run(SimpleNamespace(batch_size=unknown.size), unknown),
            f"can_run() says yes to {unknown}, which nobody captured",
        )
    with torch.no_grad(), _session(backend, "capture", stream_of(subject)):
        _capture(backend, _Key(3), lambda: function.run(3) - _MORE)
    with torch.no_grad(), _session(backend, "replay"):
        problem = function.off(backend.replay(_Key(3), SimpleNamespace(batch_size=3)) + _MORE, 3)
    expect(
        problem is None,
        f"captured again under its key, as the host does for other hidden states, the replay of 3 rows {problem}",
    )
    _judge_large(cls, subject)
    another.cleanup()
    batch = SimpleNamespace(batch_size=3)
    expect(backend.can_run(batch, _Key(3)), "another backend's cleanup() took the graphs of this one")
    backend.cleanup()
    expect(not backend.can_run(batch, _Key(3)), "can_run() says yes after cleanup()")


def _judge_large(cls: Any, subject: Subject) -> None:
    """Three graphs of one size, whose tensors have the 2 MiB of a draft's logits: allocators cut small ones from slabs,
    and give the memory of large ones to the next."""
    function = CapturedFunction(subject, _LARGE, width=64)
    backend: Any = cls(function.runner())
    keys = [_Key(_LARGE, label) for label in (None, "second", "third")]
    with torch.no_grad(), _session(backend, "capture", stream_of(subject)):
        for at, key in enumerate(keys):
            _capture(backend, key, lambda at=at: function.run(_LARGE) + at * _MORE)
    function.fill()
    with torch.no_grad(), _session(backend, "replay"):
        outputs = {key: backend.replay(key, SimpleNamespace(batch_size=_LARGE)) for key in reversed(keys)}
    for at, key in enumerate(keys):
        problem = function.off(outputs[key] - at * _MORE, _LARGE)
        expect(
            problem is None,
            f"of three graphs of {_LARGE} rows, replayed from the last to the first, number {at + 1} {problem}",
            fix="give each graph memory of its own: outputs are read while others replay",
            case={"rows": _LARGE, "graph": at + 1},
        )
    backend.cleanup()


def _nested(function: CapturedFunction) -> tuple[Any, ...]:
    """As a draft model answers: several tensors, some in a list, in a dict, or none; the last has no dimensions."""
    return (
        function.run(8),
        [function.run(3), function.run(1), function.run(3) + _MORE],
        {"scores": function.run(2) + _MORE, "extra": None, "places": _places(function)},
        function.run(1).sum(),
    )


def _places(function: CapturedFunction) -> torch.Tensor:
    """Whole numbers, as the tokens that a draft model chose: int64 [4]."""
    return (function.inputs[:4, 0] * 1000).round().to(torch.int64)


def _judge_nested(function: CapturedFunction, output: Any, change: str) -> None:
    fix = (
        "answer with what forward_fn answered, in its nesting, and have each replay write every tensor of it"
    )
    try:
        first, (second, third, alike), more, total = output
        tensors = ((first, 8), (second, 3), (third, 1), (alike - _MORE, 3), (more["scores"] - _MORE, 2))
        rest, places = more["extra"], more["places"]
    except (TypeError, ValueError, KeyError) as error:
        raise CheckFailed(
            f"forward_fn answers a tuple of a tensor, a list, a dict and a tensor; its replay {type(output).__name__}",
            fix=fix,
        ) from error
    expect(rest is None, "a None in what forward_fn answers is something else in the replay", fix=fix)
    for tensor, rows in tensors:
        problem = function.off(tensor, rows)
        expect(
            problem is None,
            f"with {change}, of an output of five tensors in a tuple, list and dict that of {rows} rows {problem}",
            fix=fix,
            case={"rows": rows, "after": change},
        )
    problem = function.off(total, 1, of=torch.sum)
    expect(
        problem is None,
        f"with {change}, of an output the tensor without dimensions {problem}",
        fix=fix,
        case={"rows": 1, "after": change},
    )
    expect(
        isinstance(places, torch.Tensor) and torch.equal(places.cpu(), _places(function).cpu()),
        f"with {change}, the whole numbers of an output are {places!r}, and must be {_places(function)!r}",
        fix=fix,
        case={"after": change},
    )


def _session(backend: Any, which: str, *stream: Any) -> Any:
    session = getattr(backend, f"{which}_session")(*stream)
    expect(
        hasattr(session, "__enter__") and hasattr(session, "__exit__"),
        f"{which}_session() answers {session!r}, and the host enters it",
        fix=f"return a context manager from {which}_session(), or leave it out: core's base has one",
    )
    return session


def _capture(backend: Any, key: _Key, run: Callable[[], torch.Tensor]) -> None:
    """Capture under a key. The hook must come after the warm-up, and before what is captured."""
    calls: list[str] = []

    def forward() -> torch.Tensor:
        calls.append("forward")
        return run()

    backend.capture_one(key, forward, post_warmup_hook=lambda: calls.append("hook"))
    expect(
        calls.count("hook") == 1 and calls[0] == "forward" and calls[-1] == "forward",
        f"capture_one() calls {', '.join(calls) or 'nothing'}: post_warmup_hook comes once, between the warm-up and"
        " the capture",
    )


@check(
    level=Level.GRAPHS,
    requires=[capability("piecewise_graph")],
    hosts=["none"],
    fix="replay the graph of the token count, computed anew from the tensors that are passed, and run the piece itself"
    " for every other count",
)
def pieces_replay_what_they_compute(subject: Subject) -> None:
    """`get_piecewise_backend_cls()`, built and called as the host's compiler does: for token counts that are captured
    and for others, with other inputs, with weights changed in place, with tensors that lie elsewhere and with other
    numbers beside them, each call gives what the piece computes."""
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
    function.fill()
    elsewhere.copy_(function.inputs)
    function.inputs.zero_()  # what a replay of the capture would read
    with torch.no_grad():
        got = backends[0](elsewhere[:3], 3, *function.weights).clone()
    function.inputs.copy_(elsewhere)
    problem = function.off(got, 3)
    expect(
        problem is None,
        f"piece 0, with tensors that lie elsewhere than at its capture, {problem}",
        case={"tokens": 3},
    )
    what = "piece 0, with another part of the tensor that it was captured with,"
    _call(function, backends[0], function.inputs[4:7], 3, what, first=4)
    function.fill()

    def with_a_number(x: torch.Tensor, rows: int, more: int, *weights: torch.Tensor) -> torch.Tensor:
        return function.piece(x, rows, *weights) + more

    backend = cls(None, config, {}, pool, 0, 1, [1, 2], with_a_number, None)
    for more in (7, 7, 7, 40, 7):
        with torch.no_grad():
            got = backend(function.inputs[:3], 3, more, *function.weights).clone()
        problem = function.off(got - more, 3)
        expect(
            problem is None,
            f"a piece of 3 tokens that takes another number, called with {more}, {problem}",
            fix="compare the numbers that a piece is called with, too: a graph has them baked in",
            case={"number": more},
        )


def _call(
    function: CapturedFunction, backend: Any, x: torch.Tensor, n: int, what: str, *, first: int = 0
) -> None:
    """`x`: the n rows of the inputs from `first` on. Raises CheckFailed where something else comes out of them."""
    with torch.no_grad():
        got = backend(x, n, *function.weights)
    problem = function.off(got, n, first)
    expect(problem is None, f"{what} {problem}", case={"tokens": n})
