"""What this site is made of beside its pages: directives for subcommands and for the modules of a room, and a page for
each level of the conformance suite, from its checks."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.pages.record import known_mistakes
from sglang_platform.conformance.pages.text import pages as check_pages

logger = logging.getLogger(__name__)

_COMMAND = Path(sys.executable).with_name("sglang-platform")


class Commands(SphinxDirective):
    """One section for each subcommand: its arguments and options as its help prints them in a pipe."""

    def run(self) -> list[nodes.Node]:
        return [_section(words, text) for words, text in _helps(())]


class Room(SphinxDirective):
    """All public names of a package: one section for each module that exports any, in the order of their names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        lines = [line for name in _modules(self.arguments[0]) for line in _documented(name)]
        section = nodes.section(document=self.state.document)
        nested_parse_with_titles(self.state, StringList(lines, source=""), section)
        return section.children


def _modules(name: str) -> list[str]:
    """`name` and the modules inside it that export names of their own."""
    package = importlib.import_module(name)
    inside = [one.name for one in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}.")]
    return [one for one in (name, *inside) if _own_names(importlib.import_module(one))]


def _own_names(module: ModuleType) -> list[str]:
    """Exported names that are defined in the module itself."""
    names = getattr(module, "__all__", ())
    return [
        one
        for one in names
        if getattr(getattr(module, one), "__module__", module.__name__) == module.__name__
    ]


def _documented(name: str) -> list[str]:
    title = f"``{name.removeprefix('sglang_platform.core.')}``"
    return [title, "-" * len(title), "", f".. automodule:: {name}", ""]


_FIELD = re.compile(r"^([A-Za-z_]\w*(?:, \w+)*): (?=\S)")


def _is_literal(lines: list[str], at: int) -> bool:
    """True inside the indented block after a line that ends with `::`."""
    before = [line for line in lines[:at] if line.strip() and not line.startswith(" ")]
    return lines[at].startswith(" ") and bool(before) and before[-1].endswith("::")


def mark_fields(app: Any, what: str, name: str, object_: Any, options: Any, lines: list[str]) -> None:
    """Paragraphs of `name: description` lines become field lists; the bars of |x| are no substitution."""
    inside = False
    for at, line in enumerate(lines):
        if not _is_literal(lines, at):
            line = lines[at] = re.sub(r"\|(?=\S)", r"\\|", line)
        if not at or not lines[at - 1].strip():
            inside = bool(_FIELD.match(line))
        if inside and line.strip():
            lines[at] = _FIELD.sub(r":\1: ", line) if _FIELD.match(line) else f"    {line.lstrip()}"


def _helps(words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The help of a subcommand, then those of its own subcommands. Raises CalledProcessError if one fails."""
    plain = {**os.environ, "TYPER_USE_RICH": "0", "NO_COLOR": "1", "COLUMNS": "90"}
    text = subprocess.run(
        [str(_COMMAND), *words, "--help"], env=plain, check=True, capture_output=True, text=True
    ).stdout
    yield words, text
    listed = text.partition("\nCommands:\n")[2]
    for name in re.findall(r"^  ([a-z][\w-]*) ", listed, re.MULTILINE):
        yield from _helps((*words, name))


def write_check_pages(app: Any) -> None:
    """Write `checks/LEVEL.md`, which are not committed; a page that says the same is left as it is, so that Sphinx does
    not read it again."""
    for name, text in check_pages(registered().values(), known_mistakes()).items():
        path = Path(app.srcdir, "checks", name)
        if name != "index.md" and not (path.exists() and path.read_text("utf-8") == text):
            path.write_text(text, "utf-8")


def _section(words: tuple[str, ...], text: str) -> nodes.section:
    title = " ".join(("sglang-platform", *words))
    section = nodes.section(ids=[nodes.make_id(title)])
    section += nodes.title("", "", nodes.literal(text=title))
    section += nodes.literal_block(text, text, language="text")
    return section


def _require_public_names(app: Any, error: Exception | None) -> None:
    """Warn of each public name of core that no page of the reference describes; a warning fails the build."""
    if error is not None:
        return
    described = app.env.domaindata["py"]["objects"]
    core = importlib.import_module("sglang_platform.core")
    written = {name.rpartition(".")[2] for name in described}
    for name in sorted(set(core.__all__) - written):
        logger.warning("the reference does not describe %s", name)


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    app.add_directive("room", Room)
    app.connect("builder-inited", write_check_pages)
    app.connect("autodoc-process-docstring", mark_fields)
    app.connect("build-finished", _require_public_names)
    return {"parallel_read_safe": True}
