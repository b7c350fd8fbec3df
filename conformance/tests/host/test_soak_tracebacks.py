"""The soak tells tracebacks that SGLang writes of right work from any other."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

_SOURCE = Path(__file__).parents[3] / "benchmarks" / "soak_tracebacks.py"
pytestmark = pytest.mark.skipif(not _SOURCE.exists(), reason="benchmarks are not part of this source tree")

_KNOWN = """\
[14:10:44] Task exception was never retrieved
Traceback (most recent call last):
  File "/x/sglang/srt/lora/lora_registry.py", line 184, in release
    raise TypeError("lora_id must be either a string or a list of strings.")
TypeError: lora_id must be either a string or a list of strings.
"""
_CHAINED = """\
Traceback (most recent call last):
  File "/x/one.py", line 1, in one
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/two.py", line 2, in two
    raise ValueError("b")
ValueError: b
"""


@pytest.fixture
def soak_tracebacks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak_tracebacks", _SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_known_ones_are_counted_and_others_are_shown_whole(soak_tracebacks: ModuleType) -> None:
    log = "started\n" + _KNOWN + "[14:11:00] a request\n" + _CHAINED + "[14:11:01] another\n" + _KNOWN
    known, unknown = soak_tracebacks.by_cause(log)
    assert list(known.values()) == [2]
    assert unknown == [_CHAINED.rstrip("\n")]


def test_the_words_of_a_known_one_from_another_place_are_not_known(soak_tracebacks: ModuleType) -> None:
    known, unknown = soak_tracebacks.by_cause(_KNOWN.replace("sglang/srt/lora", "vendor/srt/lora"))
    assert (known, len(unknown)) == ({}, 1)


_KILLED = """\
[15:40:54 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/x/sglang/srt/managers/scheduler.py", line 6360, in run_scheduler_process
    scheduler.run_event_loop()
RuntimeError: [/x/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:31915.
"""


def test_a_peer_that_is_gone_is_known_only_where_one_was_killed(soak_tracebacks: ModuleType) -> None:
    known, unknown = soak_tracebacks.by_cause(_KILLED, soak_tracebacks.OF_A_KILLED_RANK)
    assert (list(known.values()), unknown) == ([1], [])
    assert len(soak_tracebacks.by_cause(_KILLED)[1]) == 1


def test_a_log_without_any_has_none(soak_tracebacks: ModuleType) -> None:
    assert soak_tracebacks.by_cause("[14:10:44] INFO\n") == ({}, [])
