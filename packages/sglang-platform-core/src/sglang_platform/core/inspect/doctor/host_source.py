"""What the installed SGLang defines on its platform class and asks of a platform, read from its source."""

from __future__ import annotations

import functools
import inspect
import re
from pathlib import Path

from sglang_platform.core.contract.members import kind_of
from sglang_platform.core.discovery.versions import installed_version
from sglang_platform.core.inspect.doctor.class_shape import ShapeBuilder, UnreadableClass
from sglang_platform.core.inspect.host_calls import Call, calls_of
from sglang_platform.core.source.opening import open_host
from sglang_platform.core.source.search import find
from sglang_platform.core.source.tree import SourceTree

__all__ = ["HostSource", "installed_host", "is_hosts"]

_ASKED = re.compile(rb"platform(?:\(\))?\s*\.\s*(\w+)")
_ASKED_BY_TEXT = re.compile(rb"attr\(\s*[\w.]*platform[\w.]*\s*,\s*[\"'](\w+)[\"']")
_QUOTED = re.compile(rb"[\"'](\w+)[\"']")


class HostSource:
    """One installed SGLang."""

    def __init__(self, folder: Path, version: str | None, builder: ShapeBuilder) -> None:
        self.folder = folder
        self.version = version or "of unknown version"
        self._builder = builder

    def __str__(self) -> str:
        return f"SGLang {self.version}"

    @functools.cached_property
    def platform_class(self) -> type | None:
        """The shape of SGLang's `SRTPlatform`; None where its source is not where the supported releases have it."""
        try:
            return self._builder.build("sglang.srt.platforms.interface", "SRTPlatform").cls
        except UnreadableClass:
            return None

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The public names of SGLang's `SRTPlatform`."""
        return public_names(self.platform_class) if self.platform_class is not None else frozenset()

    def asks_for(self, name: str) -> bool:
        """Whether some line of the LLM runtime reads `name` of a platform."""
        return name in self._asked

    def call_not_taken(
        self, name: str, contract: inspect.Signature, override: inspect.Signature, receiver: str = ""
    ) -> Call | None:
        """A call of a method of this name that the contract takes and the override does not; `receiver`: a word that
        stands in the name of the object."""
        for call in calls_of(self._tree, name):
            if call.receiver == ():
                continue  # a plain function
            on = (call.receiver or ("",))[-1].lower()
            if receiver in on and call.is_taken_by(contract) and not call.is_taken_by(override):
                return call
        return None

    @functools.cached_property
    def _tree(self) -> SourceTree:
        return open_host("installed", {"sglang"})

    @functools.cached_property
    def _asked(self) -> frozenset[str]:
        asked: set[bytes] = set()
        for path in (self.folder / "srt").rglob("*.py"):
            text = path.read_bytes()
            asked.update(_ASKED.findall(text), _ASKED_BY_TEXT.findall(text))
            if path.parent.name == "platforms":
                asked.update(_QUOTED.findall(text))  # tables of older names, looked up by text
        return frozenset(name.decode() for name in asked)


def public_names(cls: type) -> frozenset[str]:
    """The public names that the host's classes among the bases of `cls`, and `cls` itself, define."""
    return frozenset(
        name
        for klass in cls.__mro__
        if is_hosts(klass)
        for name, value in vars(klass).items()
        if not name.startswith("_") and kind_of(value) != "class"
    )


def is_hosts(cls: type) -> bool:
    """Whether SGLang wrote the class."""
    return cls.__module__.partition(".")[0] == "sglang"


def installed_host(builder: ShapeBuilder) -> HostSource | None:
    """The SGLang of this environment, or None. It is not imported."""
    spec, _ = find("sglang")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(folder) / "srt").is_dir():
            return HostSource(Path(folder), installed_version("sglang"), builder)
    return None
