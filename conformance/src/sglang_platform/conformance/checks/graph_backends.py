"""Level 5: the graph backends that the host's own runners use: whole graphs of a draft model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from sglang_platform.conformance.check import NotApplicable, check, expect, mended_by
from sglang_platform.conformance.fixtures.captured_function import CapturedFunction, stream_of
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import graph_capture
from sglang_platform.conformance.subject import Subject

_SIZES = (8, 3, 1)
_LARGE = 8192
"""Rows whose tensors have the 2 MiB of a draft's logits: allocators cut small ones from slabs, and give the memory of
large ones to the next."""

_MORE = 100.0
"""What the other function of a size adds."""


@dataclass(frozen=True)
class _Key:
    """As the host's keys are: of one size there may be several graphs (adapters, streams, forms of attention)."""

    size: int
    variant_label: str | None = None


class _Captured:
    """A backend of `cls`, and by its keys the functions that it captured: a replay is what they are worth now."""

    def __init__(self, cls: Any, subject: Subject, function: CapturedFunction) -> None:
        self.backend, self.subject, self.function = cls(function.runner()), subject, function
        self.runs: dict[_Key, Callable[[], Any]] = {}

    def capture(self, runs: dict[_Key, Callable[[], Any]]) -> None:
        self.runs |= runs
        with torch.no_grad(), self._session("capture", stream_of(self.subject)):
            for key, run in runs.items():
                self._capture(key, run)

    def _capture(self, key: _Key, run: Callable[[], Any]) -> None:
        calls: list[str] = []

        def forward() -> Any:
            calls.append("forward")
            return run()

        self.backend.capture_one(key, forward, post_warmup_hook=lambda: calls.append("hook"))
        expect(
            calls.count("hook") == 1 and calls[0] == "forward" and calls[-1] == "forward",
            f"capture_one() calls {', '.join(calls) or 'nothing'}: post_warmup_hook comes once, between the warm-up and"
            " the capture",
        )

    def _session(self, which: str, *stream: Any) -> Any:
        session = getattr(self.backend, f"{which}_session")(*stream)
        expect(
            hasattr(session, "__enter__") and hasattr(session, "__exit__"),
            f"{which}_session() answers {session!r}, and the host enters it",
            fix=f"return a context manager from {which}_session(), or leave it out: core's base has one",
        )
        return session

    def can_run(self, key: _Key) -> bool:
        return bool(self.backend.can_run(SimpleNamespace(batch_size=key.size), key))

    def replay(self, keys: Iterable[_Key]) -> dict[_Key, Any]:
        """What each answers, read once the last of them was replayed."""
        with torch.no_grad(), self._session("replay"):
            outputs = {}
            for key in keys:
                expect(self.can_run(key), f"can_run() says no to the captured key {key}")
                outputs[key] = self.backend.replay(key, SimpleNamespace(batch_size=key.size))
            return outputs

    def expect_worth(self, outputs: dict[_Key, Any], when: str, fix: str | None = None) -> None:
        for key, output in outputs.items():
            which = f"{key.size} rows{f' of another form, {key.variant_label},' if key.variant_label else ''}"
            with mended_by(fix):
                _agree(
                    output,
                    self.function.in_float64(self.runs[key]),
                    f"{when}, the replay of {which} once the other keys were replayed",
                    {"rows": key.size, "form": key.variant_label, "after": when},
                )


def _agree(output: Any, wanted: Any, what: str, case: dict[str, Any]) -> None:
    """Raises CheckFailed where a nested output is not what it must be."""
    (got, nesting), (right, as_wanted) = tree_flatten(output), tree_flatten(wanted)
    nested = (
        "answer with what forward_fn answered, in its nesting, and have each replay write every tensor of it"
    )
    expect(
        nesting == as_wanted,
        f"{what}: forward_fn answers {type(wanted).__name__} of {len(right)}; its replay {type(output).__name__}"
        f" of {len(got)}",
        fix=nested,
        case=case,
    )
    for at, (one, must) in enumerate(zip(got, right, strict=True)):
        if isinstance(one, torch.Tensor) and isinstance(must, torch.Tensor) and one.shape == must.shape:
            off = float((one.cpu().double() - must.double()).abs().max())
            most = float(must.abs().max())
            good = off <= (1e-3 * most if must.is_floating_point() else 0) and (
                one.is_floating_point() == must.is_floating_point()
            )
            how = f"is off by {off:.3g}, where numbers are up to {most:.3g}"
        else:
            good, how = one is None and must is None, f"answers {getattr(one, 'shape', one)!r}, not"
            how += f" {getattr(must, 'shape', must)!r}"
        which = f": of an output of {len(right)} tensors number {at + 1}" if len(right) > 1 else ""
        expect(good, f"{what}{which} {how}", fix=nested if which else None, case=case)


_NESTED = _Key(8, "nested")


def _nested(function: CapturedFunction) -> tuple[Any, ...]:
    """As a draft model answers: several tensors, some in a list, in a dict, or none; whole numbers, as the tokens that
    it chose; the last has no dimensions."""
    return (
        function.run(8),
        [function.run(3), function.run(1), function.run(3) + _MORE],
        {
            "scores": function.run(2) + _MORE,
            "extra": None,
            "places": (function.inputs[:4, 0] * 1024).round().to(torch.int64),
        },
        function.run(1).sum(),
    )


@check(
    level=Level.GRAPHS,
    requires=[graph_capture()],
    hosts=["none"],
    fix="capture forward_fn under its key and answer each replay with that key's own output, computed anew from the"
    " static inputs",
)
def full_graph_backend_replays(subject: Subject) -> None:
    """`get_full_graph_backend_cls()`: each key replays what its function computes from the inputs and weights of now,
    in its nesting, in outputs that no other key or backend writes; a key that is captured again is the newer graph; the
    hook comes between warm-up and capture; an unknown key, and any after `cleanup()`, is refused."""
    try:
        cls = subject.platform.get_full_graph_backend_cls()
    except NotImplementedError as refused:
        expect(str(refused), "get_full_graph_backend_cls() refuses without a word")
        raise NotApplicable(f"get_full_graph_backend_cls() refuses: {refused}") from refused
    if cls is None:
        raise NotApplicable(
            "get_full_graph_backend_cls() answers None: the host's draft models run without graphs"
        )
    function, drafts = (CapturedFunction(subject, max(_SIZES)) for _ in range(2))
    drafts.change_weights()
    ours, theirs = _Captured(cls, subject, function), _Captured(cls, subject, drafts)
    ours.capture({_Key(n): partial(function.run, n) for n in _SIZES})
    other = _Key(3, "other")
    ours.capture({other: lambda: function.run(3) + _MORE, _NESTED: lambda: _nested(function)})
    theirs.capture({_Key(3): partial(drafts.run, 3)})
    for change, act, keys in (
        ("other inputs", function.fill, (_Key(3), _Key(8), other, _Key(1), _NESTED)),
        ("weights changed in place", function.change_weights, (_NESTED, other, _Key(1), _Key(3), _Key(8))),
        ("other inputs again", function.fill, (other, _NESTED, _Key(8), _Key(1), _Key(3))),
    ):
        act()
        outputs, of_drafts = ours.replay(keys), theirs.replay([_Key(3)])
        ours.expect_worth(outputs, f"with {change}")
        theirs.expect_worth(of_drafts, f"with {change}, of another backend")
    for unknown in (_Key(5), _Key(8, "other")):
        expect(not ours.can_run(unknown), f"can_run() says yes to {unknown}, which nobody captured")
    ours.capture({_Key(3): lambda: function.run(3) - _MORE})
    ours.expect_worth(
        ours.replay([_Key(3)]), "captured again under its key, as the host does for other hidden states"
    )
    wide = CapturedFunction(subject, _LARGE, width=64)
    large = _Captured(cls, subject, wide)
    large.capture(
        {_Key(_LARGE, str(at)): lambda at=at: wide.run(_LARGE) + at * _MORE for at in range(3)}  # type: ignore[misc]
    )
    wide.fill()
    large.expect_worth(
        large.replay([*reversed(large.runs)]),
        "replayed from the last to the first of three",
        "give each graph memory of its own: outputs are read while others replay",
    )
    large.backend.cleanup()
    theirs.backend.cleanup()
    expect(ours.can_run(_Key(3)), "another backend's cleanup() took the graphs of this one")
    ours.backend.cleanup()
    expect(not ours.can_run(_Key(3)), "can_run() says yes after cleanup()")
