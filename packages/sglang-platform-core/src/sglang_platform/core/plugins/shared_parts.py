"""Finds parts of a process that two plugins have set, where the later silently takes the place of the earlier.

A part is a name of a module or class of the host, an entry of a table there (attention backends, quantisation methods,
models), a kernel in torch's dispatcher, or a REPLACE hook. All parts are read before and after each plugin runs.
Constants are not looked at: a number has no owner.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from sglang_platform.core.discovery.log import log
from sglang_platform.core.errors import PluginConflict, PluginOrigin
from sglang_platform.core.hooks.registry import HookRegistry
from sglang_platform.core.plugins.choices import choose_one

__all__ = ["SharedParts"]

_HOOKS_OF_THE_HOST = "sglang.srt.plugins.hook_registry"
_KERNEL = re.compile(r"^(\w+(?:\[alias\])?): registered at (.*?) ::", re.MULTILINE)
_LARGEST_TABLE = 10_000
_SHOWN = 3

Parts = dict[tuple[str, ...], Any]
"""By place: (module, attribute), (module, table, key) or (module, "Class.", attribute); an empty module for what is in
none."""


class _Kernel(NamedTuple):
    place: str
    """``file:line``, as torch's dispatcher says it."""


class SharedParts:
    """The owner of each shared part that a plugin has set in this process."""

    def __init__(self, package: str) -> None:
        """`package`: the host's."""
        self.conflicts: list[PluginConflict] = []
        self._package = package
        self._owners: dict[tuple[str, ...], PluginOrigin] = {}
        self._packages: list[tuple[str, PluginOrigin]] = []
        self._last: Parts = {}

    def belongs(self, module: str, origin: PluginOrigin) -> None:
        """Say whose the objects of a module and of its neighbours are."""
        self._packages.append((module.rpartition(".")[0] or module, origin))

    def forget_state(self) -> None:
        """Read all parts anew before the next plugin: others than plugins have run since."""
        self._last = {}

    @contextmanager
    def set_by(self, origin: PluginOrigin) -> Iterator[None]:
        """Attribute the parts that are set inside to a plugin; log each that another plugin has set before."""
        before, modules = self._last or dict(_parts(self._package)), set(sys.modules)
        self._last = {}
        if "torch" in modules:
            modules.add("")
        yield
        homes = _files()
        taken: dict[PluginOrigin, list[str]] = {}
        self._last = dict(_parts(self._package))
        for place, value in self._last.items():
            old = before.get(place)
            if old is value or (old == value and isinstance(value, _Kernel)):
                continue
            home = _home(value, homes)
            ours = self._owner(home) == origin
            if not home or _inside(home, self._package) or not (ours or place[0] in modules):
                continue
            owner = self._owners.get(place) or self._owner(_home(old, homes))
            if owner and (owner.distribution or owner.name) != (origin.distribution or origin.name):
                taken.setdefault(owner, []).append(_label(place))
            self._owners[place] = origin
        for owner, labels in taken.items():
            self._tell(owner, origin, labels)

    def _owner(self, home: str) -> PluginOrigin | None:
        return next((origin for package, origin in self._packages if home and _inside(home, package)), None)

    def _tell(self, earlier: PluginOrigin, later: PluginOrigin, labels: list[str]) -> None:
        more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
        conflict = PluginConflict(
            f"{earlier} and {later} both set {', '.join(labels[:_SHOWN])}{more}",
            plugin=later,
            why=f"{later.name} is loaded last, and takes the place of what {earlier.name} set, or wraps it",
            fix=choose_one(earlier, later),
        )
        self.conflicts.append(conflict)
        log(__name__).warning("%s", conflict)


def _parts(package: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, module in sys.modules.copy().items():
        if _inside(name, package) and isinstance(module, ModuleType):
            yield from _of_module(name, module, package)
    yield from _replacements()
    dispatcher: Any = getattr(sys.modules.get("torch"), "_C", None)
    if hasattr(dispatcher, "_dispatch_get_all_op_names"):
        for op in dispatcher._dispatch_get_all_op_names():
            for key, place in _KERNEL.findall(dispatcher._dispatch_dump(op)):
                yield ("", f"the kernel of {op} for {key}"), _Kernel(place)


def _of_module(name: str, module: ModuleType, package: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for attribute, value in vars(module).copy().items():
        yield (name, attribute), value
        if type(value) is dict:
            yield from _entries(name, attribute, value)
        elif isinstance(value, type):
            if value.__module__ == name:
                inside = f"{attribute}."
                yield from (((name, inside, key), part) for key, part in vars(value).copy().items())
        elif _inside(type(value).__module__, package):
            for key, table in dict(getattr(value, "__dict__", {})).items():
                if type(table) is dict:
                    yield from _entries(name, f"{attribute}.{key}", table)


def _entries(name: str, attribute: str, table: dict[Any, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if len(table) <= _LARGEST_TABLE:
        yield from (((name, attribute, key), part) for key, part in table.copy().items() if type(key) is str)


def _replacements() -> Iterator[tuple[tuple[str, ...], Any]]:
    """The REPLACE hook of each target, in our registry and the host's, and the hooks on methods of a class in place."""
    hosts = getattr(sys.modules.get(_HOOKS_OF_THE_HOST), "HookRegistry", None)
    tables: Iterable[Any] = [HookRegistry._hooks, getattr(hosts, "_hooks", {})]
    replaced: dict[str, Any] = {}
    for hooks in tables:
        for target, stack in hooks.items():
            for kind, hook, _ in stack:
                if kind.value == "replace":
                    replaced[target.replace(":", ".")] = hook
    own: dict[tuple[str, ...], Any] = {}
    for target, hook in replaced.items():
        yield ("", f"the REPLACE hook of {target}"), hook
        if isinstance(hook, type):
            own |= {("", f"the method {target}.{name}"): part for name, part in vars(hook).items()}
    for hooks in tables:
        for target, stack in hooks.items():
            place = ("", f"the method {target.replace(':', '.')}")
            if place in own:
                own[place] = stack[-1][1]
    yield from own.items()


def _label(place: tuple[str, ...]) -> str:
    module, attribute, *key = place
    inside = "" if not key else key[0] if attribute.endswith(".") else f"[{key[0]!r}]"
    return (f"{module}:" if module else "") + attribute + inside


def _files() -> dict[str, str]:
    modules = sys.modules.copy().items()
    return {file: name for name, module in modules if (file := getattr(module, "__file__", None))}


def _home(value: Any, files: dict[str, str]) -> str:
    """The module that defines a function, class, object or kernel; empty for a constant."""
    if isinstance(value, _Kernel):
        file = value.place.rpartition(":")[0]
        return files.get(file, file or value.place)
    value = getattr(value, "__func__", value)
    value = getattr(value, "func", value) if not isinstance(value, type) else value
    if isinstance(value, FunctionType):
        return str(value.__globals__.get("__name__", ""))  # `functools.wraps` copies `__module__`
    if isinstance(value, ModuleType):
        return value.__name__
    cls = value if isinstance(value, type) else type(value)
    return "" if cls.__module__ == "builtins" else cls.__module__


def _inside(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")
