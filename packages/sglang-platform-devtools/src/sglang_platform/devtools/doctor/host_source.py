"""What one release of SGLang asks of a platform and of its parts, read from its source."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection
from pathlib import Path

from sglang_platform.core.installed.distributions import installed_version
from sglang_platform.core.installed.modules import find
from sglang_platform.devtools.host_calls import Call, calls_of, taken_apart
from sglang_platform.devtools.source.opening import open_host
from sglang_platform.devtools.source.signatures import fields
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["HostSource", "installed_host"]

_ASKED = re.compile(rb"platform(?:\(\))?\s*\.\s*(\w+)")
_ASKED_BY_TEXT = re.compile(rb"attr\(\s*[\w.]*platform[\w.]*\s*,\s*[\"'](\w+)[\"']")
_NOT_OURS = ("/multimodal_gen/", "/hardware_backend/")
"""Folders of the diffusion runtime and of SGLang's built-in devices: both call other classes."""
_QUOTED = re.compile(rb"[\"'](\w+)[\"']")


class HostSource:
    """One release of SGLang."""

    def __init__(self, tree: SourceTree, version: str | None) -> None:
        self.tree = tree
        self.version = version or "of unknown version"

    def __str__(self) -> str:
        return f"SGLang {self.version}"

    def asks_for(self, name: str) -> bool:
        """Whether some line of the LLM runtime reads `name` of a platform."""
        return name in self._asked

    def calls(self, name: str, receiver: str = "", own: Collection[str] = ()) -> list[Call]:
        """The calls of a method of this name; `receiver`: a word that the object's name contains. Calls on `self` count
        only in the modules `own`; elsewhere `self` is of another class."""
        files = {self.tree.path(module) for module in own}
        found = []
        for call in calls_of(self.tree, name):
            is_own = call.receiver == ("self",) and not receiver
            if is_own and call.place.rpartition(":")[0] not in files:
                continue
            if _is_elsewhere(call) and call.place.rpartition(":")[0] not in files:
                continue
            if call.receiver != () and receiver in (call.receiver or ("",))[-1].lower():
                found.append(call)
        return found

    def taken_apart(self, name: str) -> tuple[int, Call] | None:
        """The number of values that calls of a method of this name are unpacked into, and one such call.

        None if no call is unpacked, or the numbers differ.
        """
        found = dict(one for one in taken_apart(self.tree, name) if not _is_elsewhere(one[1]))
        return next(iter(found.items())) if len(found) == 1 else None

    def fields_of(self, module: str, name: str) -> frozenset[str] | None:
        """The fields of a struct or dataclass of SGLang's; None if there is none of the name."""
        found = self.tree.module(module)
        nodes = found.scope.nodes(name) if found is not None else []
        if found is None or not nodes or not isinstance(nodes[-1], ast.ClassDef):
            return None
        return frozenset(fields(nodes[-1]))

    def says(self, name: str) -> bool:
        """Whether some line of SGLang reads an attribute of this name, or spells it in a string."""
        spelled = re.compile(rb"[.\"']%s\b" % name.encode())
        return any(spelled.search(self.tree.text(one)) for one in self.tree.containing(name.encode()))

    @functools.cached_property
    def _asked(self) -> frozenset[str]:
        asked: set[bytes] = set()
        for name in self.tree.containing(b"platform"):
            if not name.startswith("sglang.srt."):
                continue
            text = self.tree.text(name)
            asked.update(_ASKED.findall(text), _ASKED_BY_TEXT.findall(text))
            if name.startswith("sglang.srt.platforms"):
                asked.update(_QUOTED.findall(text))  # tables of older names, looked up by string
        return frozenset(name.decode() for name in asked)


def _is_elsewhere(call: Call) -> bool:
    return any(part in call.place for part in _NOT_OURS)


def installed_host() -> HostSource | None:
    """The SGLang of this environment, or None. It is not imported."""
    spec, _ = find("sglang")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(folder) / "srt").is_dir():
            return HostSource(open_host("installed", {"sglang"}), installed_version("sglang"))
    return None
