"""The memory package is light until one of its names is touched."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sglang_platform.core import memory


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, sglang_platform.core.memory as m; dir(m); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there() -> None:
    for name in memory.__all__:
        assert getattr(memory, name).__name__ == name
    with pytest.raises(AttributeError, match="NoSuchPool"):
        memory.NoSuchPool  # noqa: B018
