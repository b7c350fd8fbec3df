"""`command`: the command where core and devtools are installed, beside what a test makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_runner import Command, command_on, libraries

__all__ = ["command", "libraries"]


@pytest.fixture
def command(tmp_path: Path, libraries: Path) -> Command:
    return command_on(tmp_path / "site", libraries, devtools=True)
