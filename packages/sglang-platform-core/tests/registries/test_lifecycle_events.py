"""Lifecycle events against a plain model: who is told, in which order, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_platform.core.registries import events, register_forward_hook
from sglang_platform.core.registries.registry import RegistryError


class Listener:
    """Implements the events it is given, and notes the calls in a shared list."""

    def __init__(self, name: str, methods: Any, log: list[Any]) -> None:
        for method in methods:
            setattr(self, method, lambda *args, m=method: log.append((name, m, args)) or f"{name}:{m}")


names = st.sampled_from("abcde")
subsets = st.sets(st.sampled_from([*events.EVENTS, *events.QUERIES]), min_size=1)


@given(st.lists(st.tuples(names, subsets, st.integers(-2, 2)), unique_by=lambda t: t[0]))
def test_dispatch_reaches_exactly_those_that_implement(rows: Any) -> None:
    events.reset()
    log: list[Any] = []
    for name, methods, priority in rows:
        register_forward_hook(name, Listener(name, methods, log), priority)
    order = sorted(rows, key=lambda r: (r[2], r[0]))
    for event in events.EVENTS:
        log.clear()
        events.dispatch(event, 1, 2)
        assert log == [(name, event, (1, 2)) for name, methods, _ in order if event in methods]
    for query in events.QUERIES:
        implementing = [name for name, methods, _ in order if query in methods]
        log.clear()
        assert events.query_any(query, 1) == bool(implementing)
        assert log == [(name, query, (1,)) for name in implementing[:1]]  # the first true answer is enough
        assert events.query_collect(query) == [f"{name}:{query}" for name in implementing]


def test_none_is_no_answer() -> None:
    class Quiet:
        def query_report(self) -> None:
            return None

        def query_run_eagerly(self, batch: Any) -> bool:
            return False

    register_forward_hook("quiet", Quiet())
    assert events.query_collect("query_report") == []
    assert not events.query_any("query_run_eagerly", None)


def test_unknown_names_are_refused_at_registration() -> None:
    class Misspelt:
        def on_forward_beginn(self, batch: Any) -> None: ...

    with pytest.raises(RegistryError, match="on_forward_beginn -> on_forward_begin"):
        register_forward_hook("misspelt", Misspelt())
    with pytest.raises(RegistryError, match="no method that an event calls"):
        register_forward_hook("nothing", object())
    assert len(events.listeners) == 0


def test_a_place_is_hooked_when_its_first_listener_comes_and_not_before() -> None:
    heard: list[str] = []
    log: list[Any] = []
    register_forward_hook("early", Listener("early", ["on_forward_end"], log))
    events.when_heard(heard.append)
    assert heard == ["on_forward_end"]
    register_forward_hook("late", Listener("late", ["on_forward_end", "on_batch_done"], log))
    assert heard == ["on_forward_end", "on_batch_done"]


def test_an_event_nobody_implements_costs_no_more_than_a_look_up() -> None:
    assert events._methods["on_forward_begin"] == ()
    events.dispatch("on_forward_begin", object())
