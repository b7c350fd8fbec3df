"""Finds out whether a host names a definition anywhere else, so that something may reach it there.

Every other mention of the name counts as a caller, in strings and tables as well. Comments on lines of their own, names
in backticks, paths of URLs, and other definitions of that name do not.
"""

from __future__ import annotations

import ast
import re

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.scope import DefinitionNode
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.source.values import shortened

__all__ = ["Callers"]

_Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_FORMATTED = re.compile(rb"""getattr\(\s*[\w.]+,\s*(f?)(["'])([^"'\n]*)\2(\s*\+)?""")
"""``getattr(thing, f"handle_{kind}")``, ``getattr(thing, "handle_" + kind)``"""


class Callers:
    """The users of definitions in one host."""

    def __init__(self, host: SourceTree, lookup: Lookup) -> None:
        self._host, self._lookup = host, lookup
        self._patterns: list[re.Pattern[str]] | None = None

    def bypass(self, definition: Definition) -> str | None:
        """Why no caller reaches the definition; None if one does or may."""
        node, name = definition.node, definition.address.path[-1]
        is_special = name.startswith("__") and name.endswith("__")  # Python itself calls it
        if not isinstance(node, _Node) or is_special or self._has_bases(definition):
            return None
        if self._is_named(definition, name) or self._is_put_together(name):
            return None
        why = "nothing in the host names it but its definition"
        kept = [f"`@{shortened(ast.unparse(one), 70)}`" for one in node.decorator_list]
        return f"{why}; the original may be kept by {', '.join(kept)}" if kept else why

    def _has_bases(self, definition: Definition) -> bool:
        """True for a class with bases and for its methods: a scan of subclasses or a base may reach them unnamed."""
        module, path = definition.address
        found = [definition, self._lookup.find(Address(module, path[:-1]))] if path[1:] else [definition]
        nodes = [node for one in found if isinstance(one, Definition) for node in one.nodes]
        return any(isinstance(node, ast.ClassDef) and (node.bases or node.keywords) for node in nodes)

    def _is_named(self, definition: Definition, name: str) -> bool:
        """True if code or the host's entry points have the name outside its definition."""
        spelled = rf"(?<!\w){name}(?!\w)"
        if re.search(spelled, self._host.entry_points):
            return True
        home = definition.address.module
        passed_over = rf"^[ \t]*#.*|`{name}`|(?<![\w)\]])/{name}\b|\b(?:def|class) {name}\b"
        mention = re.compile(f"{passed_over}|({spelled})".encode(), re.M)
        for module in self._host.containing(name.encode(), near=home):
            text = self._host.text(module)
            own = definition.nodes if module == home else ()
            for match in mention.finditer(text):
                line = text.count(b"\n", 0, match.start()) + 1
                if match[1] and not any(_first_line(node) <= line <= (node.end_lineno or 0) for node in own):
                    return True
        return False

    def _is_put_together(self, name: str) -> bool:
        """True if a `getattr` builds its attribute name from parts that could give this name."""
        if self._patterns is None:
            texts = map(self._host.text, self._host.containing(b"getattr("))
            found = {one for text in texts for one in _FORMATTED.findall(text)}
            patterns = (_pattern(text.decode(), bool(f), bool(added)) for f, _, text, added in found)
            self._patterns = [re.compile(one) for one in patterns if one is not None]
        return any(pattern.fullmatch(name) for pattern in self._patterns)


def _first_line(node: DefinitionNode) -> int:
    """The line of a definition, that of its first decorator included."""
    decorators = [] if isinstance(node, ast.expr) else node.decorator_list
    return min(one.lineno for one in (node, *decorators))


def _pattern(text: str, is_formatted: bool, is_added_to: bool) -> str | None:
    """A pattern for the names that can be built from this text; None if the text is too short to be specific."""
    parts = re.split(r"\{[^}]*\}", text) if is_formatted else [text]
    if len("".join(parts)) <= 2 or not (len(parts) > 1 or is_added_to):
        return None
    return r"\w*".join(map(re.escape, parts)) + (r"\w+" if is_added_to else "")
