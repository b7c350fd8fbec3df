"""Where the installed plugins' platform classes are: what `activate()` answered, or what its source would answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.core.discovery import current, scan
from sglang_platform.core.discovery.groups import PLATFORM_GROUP
from sglang_platform.core.discovery.settings import LOCATION
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.inspect.doctor.module_source import SourceReader

__all__ = ["PlatformLocation", "platform_locations"]


class PlatformLocation(NamedTuple):
    """A class that a plugin names."""

    origin: PluginOrigin
    location: str

    def candidates(self) -> Iterator[tuple[str, str]]:
        """Module and class path; several where the location is dotted throughout."""
        module, colon, path = self.location.partition(":")
        if colon:
            yield module, path
            return
        parts = self.location.split(".")
        for count in range(len(parts) - 1, 0, -1):
            yield ".".join(parts[:count]), ".".join(parts[count:])


def platform_locations(reader: SourceReader) -> Iterator[PlatformLocation | PluginOrigin]:
    """Every platform class that is named, or the plugin alone where its source does not tell.

    Answers of this process's decision first: they are certain. Plugins that declined are read as well, since what is
    wrong with them shows on another machine.
    """
    answered: dict[PluginOrigin, str] = {}
    trace = current.trace()
    for candidate in trace.candidates if trace is not None else ():
        if candidate.answer:
            answered[candidate.origin] = candidate.answer
            yield PlatformLocation(candidate.origin, candidate.answer)
    for record in scan.records(PLATFORM_GROUP):
        if record.origin in answered:
            continue
        module, _, attribute = record.value.partition("[")[0].replace(" ", "").partition(":")
        texts = list(_returned_texts(reader, module, attribute))
        for text in texts:
            yield PlatformLocation(record.origin, text)
        if not texts and reader.module(module) is not None:
            yield record.origin


def _returned_texts(reader: SourceReader, module: str, attribute: str) -> Iterator[str]:
    source = reader.module(module)
    function = source.functions.get(attribute) if source is not None else None
    if source is None or function is None:
        if source is not None and attribute in source.imports:
            origin, name = source.imports[attribute]
            if name is not None and origin != module:
                yield from _returned_texts(reader, origin, name)
        return
    for node in ast.walk(function):
        text = source.text(node.value) if isinstance(node, ast.Return) else None
        if text is not None and LOCATION.fullmatch(text) and {".", ":"} & set(text):
            yield text
