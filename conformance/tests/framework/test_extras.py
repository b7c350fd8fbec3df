"""What the suite imports is declared, and what is missing is named with the extra that brings it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from sglang_platform.conformance import extras
from sglang_platform.core.errors import PlatformError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {"PIL": "pillow", "xdist": "pytest-xdist", "sglang_platform": "sglang-platform-core"}
"""Where a module is not called as its distribution."""


def named(requirements: list[str]) -> set[str]:
    """The names in requirements such as `torch>=2.11`."""
    return {requirement.split(";")[0].split("=")[0].rstrip("<>! ") for requirement in requirements}


def imported() -> dict[str, str]:
    """Top-level module -> a file of the suite that imports it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found[node.module.partition(".")[0]] = path.name
            elif isinstance(node, ast.Import):
                found.update({alias.name.partition(".")[0]: path.name for alias in node.names})
    return found


def test_every_import_is_declared() -> None:
    declared = named(PROJECT["dependencies"]).union(*map(named, PROJECT["optional-dependencies"].values()))
    undeclared = {
        module: file
        for module, file in imported().items()
        if module not in sys.stdlib_module_names and DISTRIBUTIONS.get(module, module) not in declared
    }
    # Written into a folder by the suite, and imported from there.
    assert set(undeclared) <= {"host_matrix_absent_library"}, undeclared


def test_every_extra_is_known_to_the_distribution() -> None:
    for extra, modules in extras.EXTRAS.items():
        declared = named(PROJECT["optional-dependencies"][extra])
        assert {DISTRIBUTIONS.get(module, module) for module in modules} <= declared, extra


def test_a_missing_module_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert extras.missing("kernels") is None
    extras.require("kernels")
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    words = "pip install 'sglang-platform-conformance[kernels]'"
    assert extras.missing("kernels") == f"not installed: triton ({words})"
    with pytest.raises(PlatformError, match="extra 'kernels'"):
        extras.require("kernels")
