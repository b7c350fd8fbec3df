"""Searches for callers in the text of a host: faster than syntax trees, and some callers show only in the text."""

from __future__ import annotations

import re

from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["TextSearch"]

_FORMATTED = re.compile(rb"""getattr\(\s*[\w.]+,\s*(f?)(["'])([^"'\n]*)\2(\s*\+)?""")
"""``getattr(thing, f"handle_{kind}")``, ``getattr(thing, "handle_" + kind)``"""
_STAR = re.compile(rb"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import \*", re.M)
_CALL_SO_FAR = re.compile(rb"[ \t]+(?:[\w.]+(?:, [\w.]+)* = )?(?:(?:return|await|if|elif|not) )*[\w.]+")
"""The text before the last dot of a plain call in a function: ``    x = await self.thing``."""


class TextSearch:
    """Searches one host."""

    def __init__(self, host: SourceTree) -> None:
        self._host = host
        self._patterns: list[re.Pattern[str]] | None = None
        self._stars: dict[str, list[str]] | None = None

    def is_command(self, module: str, name: str) -> bool:
        """True if the host's entry points name the function."""
        return re.search(rf"\b{re.escape(module)}\s*:\s*{name}\b", self._host.entry_points) is not None

    def calls_method(self, name: str, near: str) -> bool:
        """True if a line of code starts with a call of a method of this name, as for most methods."""
        access = b"." + name.encode() + b"("
        for module in self._host.served(near=near):
            text = self._host.text(module)
            at = text.find(access)
            while at >= 0:
                if _CALL_SO_FAR.fullmatch(text, text.rfind(b"\n", 0, at) + 1, at):
                    return True
                at = text.find(access, at + 1)
        return False

    def imports_name(self, home: str, name: str) -> bool:
        """True if a module has an unindented, hence not `TYPE_CHECKING`, import of the name from its home. Most names
        have one."""
        start = rb"^from " + re.escape(home).encode() + rb" import "
        found = re.compile(start + rb"(?:\([^)]*?|[^\n(]*?)\b" + name.encode() + rb"\b", re.M)
        modules = self._host.containing(name.encode(), near=home)
        return any(found.search(self._host.text(module)) for module in modules if module != home)

    def puts_together(self, name: str) -> bool:
        """True if a `getattr` builds its attribute name from parts that could give this name."""
        if self._patterns is None:
            texts = map(self._host.text, self._host.containing(b"getattr("))
            found = {one for text in texts for one in _FORMATTED.findall(text)}
            patterns = (_pattern(text.decode(), bool(f), bool(added)) for f, _, text, added in found)
            self._patterns = [re.compile(one) for one in patterns if one is not None]
        return any(pattern.fullmatch(name) for pattern in self._patterns)

    def star_importers(self, home: str) -> list[str]:
        """`home` and all modules that star-import it, directly or not; importers of those need not name `home`."""
        if self._stars is None:
            self._stars = {}
            for module in self._host.containing(b"import *"):
                package = module if self._host.is_package(module) else module.rpartition(".")[0]
                for dots, name in _STAR.findall(self._host.text(module)):
                    above = package.split(".")[: len(package.split(".")) - len(dots) + 1] if dots else []
                    origin = ".".join((*above, name.decode())).rstrip(".")
                    self._stars.setdefault(origin, []).append(module)
        found = [home]
        for one in found:
            found += [module for module in self._stars.get(one, ()) if module not in found]
        return found


def _pattern(text: str, is_formatted: bool, is_added_to: bool) -> str | None:
    """A pattern for the names that can be built from this text; None if the text is too short to be specific."""
    parts = re.split(r"\{[^}]*\}", text) if is_formatted else [text]
    if len("".join(parts)) <= 2 or not (len(parts) > 1 or is_added_to):
        return None
    return r"\w*".join(map(re.escape, parts)) + (r"\w+" if is_added_to else "")
