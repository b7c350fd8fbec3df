"""Beside the tests: `host_protocols`, which reads what SGLang asks of parts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def asked_names(request: pytest.FixtureRequest) -> set[str]:
    """The values of the parameter `name` in the tests of this file that run."""
    tests = [
        item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")
    ]
    return {item.callspec.params["name"] for item in tests}  # type: ignore[attr-defined]
