from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def models() -> Path:
    """Checkpoints are made once and kept across runs, with the references beside them."""
    return Path(os.environ.get("SGLANG_PLATFORM_TEST_MODELS", "models")).resolve()
