"""The support matrix: green only when everything held, and each failure named."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tools.versions.report import failures, page

_CHECK = {
    "torch_wanted": "2.11.0",
    "versions": {"torch": "2.13.0+cpu", "transformers": "5.6.0"},
    "checks": [
        {"check": "discovered", "ok": True, "seen": "yes"},
        {"check": "re-based", "ok": True, "seen": "yes"},
    ],
}
_SERVE: dict[str, Any] = {
    "equal": True,
    "tokens": 96,
    "parts": {"KV pool": 3},
    "carried": {"post_load_model": 1},
    "hosts_own": {"host.kv_pool.stores": 0},
    "server_args": {"max_running_requests": 5},
    "limits": [{"name": "capabilities.fp8", "why": "no reader"}],
    "warnings": [],
    "processes": [
        {"kinds": [kind], "class": "Probe", "hooks": 20, "refused": []}
        for kind in ("launcher", "scheduler", "detokenizer")
    ],
}


def results(**changes: Any) -> dict[str, dict[str, Any]]:
    serve = copy.deepcopy(_SERVE)
    serve.update(changes)
    return {"0.5.11": {"check": copy.deepcopy(_CHECK), "serve": serve}}


def test_all_green() -> None:
    assert failures(results()) == []
    text = page(results())
    assert "every check is green" in text
    assert "| 0.5.11 | 2.11.0 | 2.13.0+cpu | no CPU build" in text
    assert "all 96" in text
    assert "0.5.11: `capabilities.fp8`: no reader" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"equal": False}, "other tokens than transformers"),
        ({"parts": {"KV pool": 0}}, "KV pool was not used"),
        ({"carried": {"post_load_model": 0}}, "post_load_model was not used"),
        ({"hosts_own": {"host.kv_pool.stores": 2}}, "the host's own part ran"),
        ({"server_args": {"max_running_requests": 48}}, "not the last word"),
        ({"processes": _SERVE["processes"][:2]}, "no hooks in the detokenizer"),
        (
            {"processes": [{**_SERVE["processes"][0], "refused": ["a.b:c"]}, *_SERVE["processes"][1:]]},
            "refused: a.b:c",
        ),
        (
            {"warnings": ["sglang_platform.core.hooks: a hook fails"]},
            "a healthy start warned: sglang_platform.core",
        ),
        ({"error": "Traceback\nEngineFailed: it died"}, "does not serve: EngineFailed: it died"),
    ],
)
def test_each_failure_is_named(changes: dict[str, Any], said: str) -> None:
    found = failures(results(**changes))
    assert len(found) == 1
    assert found[0].startswith("0.5.11: ")
    assert said in found[0]
    assert said.split(":")[0] in page(results(**changes))


def test_a_failed_check_is_named() -> None:
    broken = results()
    broken["0.5.11"]["check"]["checks"][1].update(ok=False, seen="Traceback\nAssertionError: not re-based")
    assert failures(broken) == ["0.5.11: re-based: AssertionError: not re-based"]
    assert "**fails**" in page(broken)
