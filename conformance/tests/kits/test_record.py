"""The record of SGLang's own CPU device is what that device does here: it is run again and compared.

Every test that the record excuses is among them, and with it a few that must pass.
"""

from __future__ import annotations

import importlib.metadata
import json
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from sglang_platform.conformance.kits import attention, baseline
from sglang_platform.conformance.kits.server import KitServer
from sglang_platform.conformance.kits.table import KITS
from sglang_platform.conformance.kits.verdict import KitTest

pytestmark = [
    pytest.mark.engine,
    pytest.mark.host,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed"),
]

_ALSO = ("decode correctness", "stop", "JSON mode")


def _record(part: str) -> list[KitTest]:
    path = baseline.record_of(importlib.metadata.version("sglang"))
    return [KitTest(*row) for row in json.loads(path.read_text())[part]]


def _ended(tests: list[KitTest]) -> dict[tuple[str, str], tuple[str, str]]:
    return {(one.kit, one.test): (one.outcome, one.cause) for one in tests}


def test_attention_and_radix_cache() -> None:
    assert _ended(attention.in_tree()) == _ended(_record("attention"))


@pytest.mark.long
def test_kits_of_a_server() -> None:
    record = _record("server")
    excused = {one.kit for one in record if one.outcome not in ("passed", "left out")}
    chosen = [kit for kit in KITS if kit.name in excused | set(_ALSO)]
    with tempfile.TemporaryDirectory() as folder:
        environment = baseline.environment(Path(folder))
        with KitServer(None, baseline.OPTIONS, environment, patience=5) as server:
            found = [test for kit in chosen for test in server.run(kit)]
    named = {kit.name for kit in chosen}
    assert _ended(found) == _ended([one for one in record if one.kit in named])
