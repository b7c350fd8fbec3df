"""How a rule of the house says what breaks it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

__all__ = ["refuse"]


def refuse(findings: Sequence[str], rule: str) -> None:
    """Fail with every finding on a line of its own."""
    if findings:
        pytest.fail("\n".join([f"{rule}; {len(findings)} against it:", *sorted(findings)]), pytrace=False)
