"""Hosts made of files: each test writes the modules it hooks, so that importing them is part of the test."""

from __future__ import annotations

import gc
import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sglang_platform.core.hooks.registry import HookRegistry, HookType

sys.path.insert(0, str(Path(__file__).parent))  # for `onion_model`, which the tests share

MODULES = Path(__file__).parent / "modules"


class Host:
    """Modules in a folder on `sys.path`, gone from `sys.modules` after the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._before = set(sys.modules)

    def write(self, **modules: str) -> None:
        """``write(pkg__mod="...")`` writes ``pkg/mod.py``; ``pkg____init__`` its package's own file."""
        for name, source in modules.items():
            package, is_package, _ = name.partition("____init__")
            path = self.folder / (package.replace("__", "/") + ("/__init__.py" if is_package else ".py"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(source))
        importlib.invalidate_caches()

    def bring(self, name: str) -> None:
        """A module of the folder `modules/` beside these tests."""
        self.write(**{name: (MODULES / f"{name}.py").read_text()})

    def load(self, name: str) -> ModuleType:
        return importlib.import_module(name)

    def forget(self) -> None:
        for name in set(sys.modules) - self._before:
            path = getattr(sys.modules[name], "__file__", None) or ""
            search = [str(one) for one in getattr(sys.modules[name], "__path__", ())]
            if any(str(self.folder) in one for one in (path, *search)):
                del sys.modules[name]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Host(tmp_path)
    yield made
    HookRegistry.reset()
    made.forget()


@pytest.fixture(autouse=True)
def no_hooks_left() -> Iterator[None]:
    HookRegistry.reset()
    yield
    HookRegistry.reset()


@pytest.fixture(autouse=True)
def only_what_the_test_makes_is_searched(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each hook's search for who holds its target walks all objects: with torch, which other tests import, a million.
    None of those that are there before the test holds a module of files; one of SGLang's may, in a test of a host."""
    if request.node.get_closest_marker("host") is not None:
        yield
        return
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(params=[False, True], ids=["lazy", "late"])
def kinds(host: Host, request: pytest.FixtureRequest) -> Callable[..., ModuleType]:
    """Apply hooks lazily or late: `kinds(...)` returns the module with the hooks in force."""
    host.bring("kinds")
    if request.param:
        host.load("kinds")

    def hooked(*hooks: tuple[str, Any, HookType]) -> ModuleType:
        for target, hook, type_ in hooks:
            HookRegistry.register(f"kinds:{target}", hook, type_)
        HookRegistry.apply_hooks()
        return host.load("kinds")

    return hooked
