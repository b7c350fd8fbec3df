"""The registries list themselves: for the process report, for plugins that fail half way, and for the page."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import sglang_platform.core.registries as package
from sglang_platform.core.registries.registry import Registry, registries

PAGE = Path(__file__).parents[4] / "docs" / "registries.md"


def test_a_registry_is_listed_once_it_is_made() -> None:
    before = registries()
    made: Registry[int] = Registry("lamps", "lamp")
    made.add("red", 1)
    assert registries() == (*before, made)
    assert made.describe() == [{"id": "red", "priority": 0, "plugin": None}]


def test_every_registry_has_a_name_of_its_own_and_a_row_in_the_page() -> None:
    modules = [
        importlib.import_module(f"{package.__name__}.{one.name}")
        for one in pkgutil.iter_modules(package.__path__)
    ]
    homes = {module.__name__.rpartition(".")[2]: registries_in(module) for module in modules}
    names = [registry.name for found in homes.values() for registry in found]
    assert sorted(names) == sorted({*names})
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    for home, found in homes.items():
        assert sum(f", `{home}` |" in row for row in rows) == len(found)


def registries_in(module: object) -> list[Registry[object]]:
    return [value for value in vars(module).values() if isinstance(value, Registry)]
