"""The plugin under test as its metadata and files show it. Nothing of it is imported, but for asking `activate()`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.asking import ask
from sglang_platform.core.discovery.groups import PLATFORM_GROUP
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.devtools.source.opening import package_files

__all__ = ["CheckedPlugin", "DeviceAbsent", "named"]


class DeviceAbsent(Exception):
    """The plugin says that its device is not on this machine; the text is its reason."""


class CheckedPlugin:
    """`name` is the entry point's, or that of a development platform, whose class is at `location`, `pkg.mod:Class`."""

    def __init__(self, name: str, location: str | None = None) -> None:
        self.name, self.location = name, location

    @cached_property
    def records(self) -> tuple[EntryPointRecord, ...]:
        """The platform's entry points; more than one where two distributions register the name, none where it is a
        development platform or is not installed."""
        return tuple(record for record in scan.records(PLATFORM_GROUP) if record.name == self.name)

    @property
    def record(self) -> EntryPointRecord | None:
        """The first of `records`; None for a development platform."""
        return self.records[0] if self.records and self.location is None else None

    @property
    def distribution(self) -> str | None:
        """The distribution that carries it."""
        return self.record.origin.distribution if self.record else None

    @cached_property
    def module(self) -> str | None:
        """The module of its entry point, or of a development platform's class."""
        text = self.location or (self.record.value if self.record else "")
        return text.partition("[")[0].partition(":")[0].strip() or None

    @cached_property
    def sources(self) -> list[tuple[str, Path]]:
        """(module, file) of all its Python files, found without importing them."""
        return package_files(self.module) if self.module else []

    @cached_property
    def availability(self) -> str | None:
        """None where the plugin says that its device is here, else its reason. Raises what discovery raises."""
        if self.location is not None or self.record is None:
            return None
        with named("SGLANG_PLATFORM", self.name):
            answer = ask(self.record)
        return None if answer.location else answer.reason


@contextmanager
def named(variable: str, name: str) -> Iterator[None]:
    """While a plugin is asked, it is the one that is named, as an operator would name it."""
    before = os.environ.get(variable)
    os.environ[variable] = name
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = before
