"""The Python files of a folder or a wheel by module name, parsed on demand and never imported."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from sglang_platform.core.installed.files import Unread
from sglang_platform.devtools.source.module import Module

__all__ = ["SourceTree", "is_test", "module_name"]

_TESTS = {"test", "tests"}
_TOGETHER = 512 << 20  # limit in bytes for all sources; SGLang has about 30 million
_DEFINED = re.compile(rb"\n(?:class|def|async def) (\w+)")


class SourceTree:
    """All modules of a host or a plugin by their dotted names. Files are read on demand and cached."""

    called = "the host"

    def __init__(
        self,
        label: str,
        files: Mapping[str, str],
        read: Callable[[str], bytes],
        entry_points: str = "",
    ) -> None:
        self.label = label
        """For messages, e.g. ``sglang 0.5.20 (sglang-0.5.20-py3-none-any.whl)``."""
        self.entry_points = entry_points
        """The text of the metadata that names functions of the host as commands."""
        self._read = read
        self._files: dict[str, str] = {}
        self._packages: set[str] = set()
        for path, name in files.items():
            if path.endswith("__init__.py") or name not in self._files:
                self._files[name] = path
            self._packages.update(_parents(name))
            if path.endswith("__init__.py"):
                self._packages.add(name)
        self._texts: dict[str, bytes] = {}
        self._unread: dict[str, str] = {}  # why
        self._left = _TOGETHER
        self._modules: dict[str, Module | None] = {}
        self._index: dict[str, list[str]] | None = None
        self._served: list[str] | None = None

    @property
    def top_packages(self) -> set[str]:
        return {name.partition(".")[0] for name in self._files}

    def has(self, module: str) -> bool:
        """True if there is a module or package of this name, namespace packages included."""
        return module in self._files or module in self._packages

    def children(self, package: str) -> list[str]:
        """The last names of a package's direct submodules; the top-level packages for an empty name."""
        prefix = f"{package}." if package else ""
        below = (name[len(prefix) :] for name in (*self._files, *self._packages) if name.startswith(prefix))
        return sorted({name.partition(".")[0] for name in below if name})

    def is_package(self, module: str) -> bool:
        return module in self._packages

    def path(self, module: str) -> str | None:
        return self._files.get(module)

    def text(self, module: str) -> bytes:
        """The bytes of a module's file; empty for a namespace package, and for an unreadable file."""
        found = self._texts.get(module)
        if found is None:
            found = b""
            if module in self._files:
                try:
                    if self._left < 0:
                        raise Unread(f"the sources are larger than {_TOGETHER >> 20} MiB together")
                    found = self._read(self._files[module])
                    self._left -= len(found)
                except Unread as error:
                    self._unread[module] = f"{module} cannot be read: {error}"
            self._texts[module] = found
        return found

    def module(self, name: str) -> Module | None:
        """The parsed module; None if there is no such file, or this Python cannot parse it."""
        if name not in self._modules:
            parsed = None
            if name in self._files:
                text = self.text(name)
                if name not in self._unread:
                    # The last two: an expression nested deeper than Python's limit.
                    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                        parsed = Module(name, self._files[name], text)
            self._modules[name] = parsed
        return self._modules[name]

    def unreadable(self, name: str) -> str:
        """Why an existing name has no parsed module; empty for a package without an `__init__`."""
        if name not in self._files:
            return ""
        if name in self._unread:
            return self._unread[name]
        return f"{name} cannot be parsed by Python {sys.version.partition(' ')[0]}"

    def not_read(self, *, unparsed: bool = True) -> list[str]:
        """The reason for each requested file that could not be read or parsed."""
        failed = (name for name, parsed in self._modules.items() if parsed is None and name in self._files)
        return [
            self.unreadable(name) for name in dict.fromkeys((*self._unread, *(failed if unparsed else ())))
        ]

    def live_class(self, dotted: str) -> type | None:
        """None: classes loaded in this process are unrelated to these files."""
        return None

    def served(self, near: str = "") -> list[str]:
        """The modules that may run while the host serves: all but its tests. Those close to `near` come first."""
        if self._served is None:
            self._served = [name for name in self._files if not is_test(name)]
        if not near:
            return self._served
        prefix = ".".join(near.split(".")[:2]) + "."
        return sorted(self._served, key=lambda name: not name.startswith(prefix))

    def containing(self, word: bytes, near: str = "") -> Iterator[str]:
        """The served modules with the word in their text, searched lazily."""
        for name in self.served(near):
            if word in self.text(name):
                yield name

    def defining(self, name: str) -> list[str]:
        """The modules, tests left out, with a top-level `def` or `class` of this name."""
        if self._index is None:
            self._index = {}
            for module in self.served():
                for found in set(_DEFINED.findall(b"\n" + self.text(module))):
                    self._index.setdefault(found.decode(), []).append(module)
        return self._index.get(name, [])


def module_name(path: str) -> str | None:
    """The module name of a path: ``a/b/__init__.py`` is ``a.b``; None if no import could name it."""
    if not path.endswith(".py"):
        return None
    parts = PurePosixPath(path).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts) if parts and all(map(str.isidentifier, parts)) else None


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def is_test(module: str) -> bool:
    """True for a test module, by its name; no serving process imports it."""
    return not _TESTS.isdisjoint(module.split("."))
