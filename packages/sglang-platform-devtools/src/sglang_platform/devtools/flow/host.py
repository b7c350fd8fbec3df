"""What a release of the host answers to a plugin: its version, its modules, and the names in them."""

from __future__ import annotations

import ast
from typing import Protocol

from sglang_platform.core.installed.address import nearest
from sglang_platform.devtools.flow.values import HostObject, UnknownValue
from sglang_platform.devtools.source.answers import Absent, Answer, Definition
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["AnyRelease", "Host", "HostAnswers"]

_VERSIONS = {
    "sglang.__version__",
    "sglang.version.__version__",
    "sglang._version.__version__",
    "sglang._version.version",
}


class Host(Protocol):
    """One release of the host."""

    tree: SourceTree

    @property
    def version(self) -> str | None: ...

    def find(self, full: str) -> Answer: ...


class HostAnswers:
    """The names of the host as values. `written`: attributes that the plugin sets somewhere."""

    is_known = True

    def __init__(self, host: Host, written: set[str]) -> None:
        self._host, self._written = host, written
        self.name = "sglang"

    @property
    def version(self) -> str | UnknownValue:
        return self._host.version or UnknownValue("the version of the host")

    def is_hosts(self, name: str) -> bool:
        return name == self.name or name.startswith(f"{self.name}.")

    def module(self, name: str) -> HostObject | Absent:
        if name == self.name or self._host.tree.has(name):
            return HostObject(name)
        above = name.rpartition(".")[0]
        return Absent(f"there is no module {name}", tuple(self._near(above, name)))

    def is_package(self, name: str) -> bool:
        return self._host.tree.is_package(name)

    def attribute(self, owner: HostObject, name: str) -> HostObject | str | UnknownValue | Absent:
        """The attribute of a module or class; Absent if the release has none of the name."""
        full = f"{owner.full}.{name}"
        if full in _VERSIONS and (
            full != "sglang._version.version" or self._host.tree.has("sglang._version")
        ):
            return self.version
        if name in self._written:
            return _unknown(full)
        if self._host.tree.has(full):
            return HostObject(full)
        if owner.is_module and name.startswith("__") and name.endswith("__"):
            return _unknown(full)
        if not owner.is_module and not isinstance(owner.node, ast.ClassDef):
            return _unknown(full)
        answer = self._host.find(full)
        if isinstance(answer, Absent):
            return answer
        node = answer.node if isinstance(answer, Definition) else None
        return HostObject(full, node, is_module=False) if isinstance(answer, Definition) else _unknown(full)

    def _near(self, package: str, name: str) -> list[str]:
        return [
            f"{package}.{one}" for one in nearest(name.rpartition(".")[2], self._host.tree.children(package))
        ]


class AnyRelease(HostAnswers):
    """A host that is not read: each of its names may exist, and any release may run."""

    is_known = False

    def __init__(self) -> None:
        self.name = "sglang"

    @property
    def version(self) -> UnknownValue:
        return UnknownValue("the version of the host")

    def module(self, name: str) -> HostObject:
        return HostObject(name)

    def is_package(self, name: str) -> bool:
        return True

    def attribute(self, owner: HostObject, name: str) -> UnknownValue:
        return _unknown(f"{owner.full}.{name}")


def _unknown(full: str) -> UnknownValue:
    return UnknownValue(full, HostObject(full, is_module=False))
