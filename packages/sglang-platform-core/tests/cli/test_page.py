"""Text that a command prints."""

from __future__ import annotations

import io
import sys

import pytest

from sglang_platform.core.cli.page import Page


class _Writes(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def write(self, text: str) -> int:
        self.told.append(text)
        return len(text)


def test_a_block_and_a_paragraph_are_one_write_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that tells the stages of slow work prints no line within a message."""
    written = _Writes()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setenv("COLUMNS", "40")
    page = Page(stderr=True)
    page.block("plugin 'acme' fails", [("why", "its driver is not there " * 4), ("fix", "install it")])
    page.print("doctor looks at acme " * 4)
    block, paragraph = written.told
    assert block.startswith("plugin 'acme' fails\n  why: ")
    assert block.count("\n") > 4
    assert paragraph.count("\n") > 1
