"""The trace of a decision: complete, in plain JSON types, and printable."""

from __future__ import annotations

import json

import pytest

from sglang_platform.core.discovery import current
from sglang_platform.core.errors import PlatformError


def _printed(trace) -> str:
    return "\n".join(trace.lines())


def test_a_decision_is_told_from_the_first_touch_to_the_answer(site) -> None:
    site.platform("here")
    site.platform("absent", "raise PlatformUnavailable('no [dim]/dev/mydev')")
    _ = current.current_platform.device_name
    trace = current.trace()
    plain = json.loads(json.dumps(trace.as_dict()))
    assert plain["group"] == "sglang.srt.platforms"
    assert "test_decision_trace.py:" in plain["triggered_by"]
    assert "(test_a_decision_is_told" in plain["triggered_by"]
    assert plain["settings"] == {}
    absent, here = plain["candidates"]
    assert (absent["outcome"], absent["reason"], absent["answer"]) == ("declined", "no [dim]/dev/mydev", None)
    assert (here["outcome"], here["answer"]) == ("chosen", "here_plugin_cls:Platform")
    assert here["origin"] == {"name": "here", "distribution": "here-dist", "version": "1.0"}
    assert 0 < here["seconds"] <= plain["seconds"]
    assert plain["outcome"] == "here (here-dist 1.0) is the platform: here_plugin_cls:Platform"
    assert plain["error"] is None
    expected = [
        "test_decision_trace.py:",
        "absent",
        "no [dim]/dev/mydev",
        "here-dist 1.0",
        "here_plugin_cls:Platform",
    ]
    assert [word for word in expected if word not in _printed(trace)] == []


def test_the_time_of_a_slow_plugin_shows(site) -> None:
    site.platform("slow", "import time; time.sleep(0.03); return None")
    site.platform("quick", "return None")
    current.choice()
    seconds = {candidate.origin.name: candidate.seconds for candidate in current.trace().candidates}
    assert seconds["slow"] >= 0.03 > seconds["quick"]


def test_a_refusal_keeps_its_trace(site, monkeypatch) -> None:
    site.platform("bad", "raise RuntimeError('driver gone')")
    site.platform("good")
    with pytest.raises(PlatformError) as caught:
        current.choice()
    trace = current.trace()
    plain = json.loads(json.dumps(trace.as_dict()))
    assert plain["outcome"] == "refused: platform plugin 'bad' failed in activate()"
    assert plain["error"]["type"] == "PluginFailed"
    assert plain["error"]["fix"] == caught.value.fix
    assert [c["outcome"] for c in plain["candidates"]] == ["failed", "active"]
    assert "driver gone" in plain["candidates"][0]["reason"]
    assert "driver gone" in _printed(trace)


def test_the_variables_that_had_a_say_are_recorded(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "one")
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    site.platform("one")
    site.platform("two")
    current.choice()
    assert current.trace().settings == {"SGLANG_PLATFORM": "one", "SGLANG_PLATFORM_ON_ERROR": "warn"}
    assert [c.outcome for c in current.trace().candidates] == ["chosen", "not asked"]
    assert "SGLANG_PLATFORM=one" in _printed(current.trace())


def test_metadata_that_cannot_be_read_is_noted(site, monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM_ON_ERROR", "warn")
    info = site.distribution("broken", {})
    (info / "entry_points.txt").write_text("[sglang.srt.platforms]\nno equals sign\n")
    current.choice()
    (note,) = current.trace().notes
    assert "broken-1.0.dist-info" in note
    assert "no equals sign" in note
