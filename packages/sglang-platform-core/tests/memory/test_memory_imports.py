"""The memory package is light until one of its names is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sglang_platform.core import memory


def test_importing_the_package_imports_no_torch(run_program: Callable[..., Any]) -> None:
    assert run_program("import_memory.py").stdout.strip() == "False"


def test_every_public_name_is_there() -> None:
    for name in memory.__all__:
        assert getattr(memory, name).__name__ == name
    with pytest.raises(AttributeError, match="NoSuchPool"):
        memory.NoSuchPool  # noqa: B018
