"""Our own distributions ask pip for what their sources import, by the check that the suite runs on any plugin."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from findings import refuse
from import_graph import DISTRIBUTIONS, ROOT, Graph, modules_below, our_graph, read_graph
from packaging.requirements import Requirement

from sglang_platform.conformance.check import CheckFailed
from sglang_platform.conformance.checks.dependencies import dependencies_are_declared
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.errors import PluginOrigin

TRITON_ROOM = "sglang_platform.core.portable.triton"
"""Core's one room that imports Triton; who imports it has the extra of that name, or is a package that requires it."""


class Package(Subject):
    """A distribution as the check sees a plugin; core and the suite, being no platforms, have no record."""

    def __init__(self, distribution: str, sources: dict[str, Path]) -> None:
        super().__init__(distribution)
        self.sources = list(sources.items())

    @property
    def record(self) -> EntryPointRecord:
        return EntryPointRecord("", self.name, "", PluginOrigin(self.name, self.name, "0"))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_what_is_imported_is_declared(name: str) -> None:
    sources = modules_below(ROOT / DISTRIBUTIONS[name] / "src")
    dependencies_are_declared(Package(f"sglang-platform-{name.replace('_', '-')}", sources))


def test_core_imports_triton_in_one_room_and_declares_it() -> None:
    refuse(_triton_elsewhere(our_graph()), f"core imports Triton below {TRITON_ROOM} only")
    required = [Requirement(text) for text in metadata.requires("sglang-platform-core") or []]
    extras = [one.marker for one in required if one.name == "triton"]
    assert extras, "core imports triton and none of its extras asks for it"
    assert all(extras), "core requires triton of everybody; only an extra should"


def _triton_elsewhere(graph: Graph) -> list[str]:
    return [
        str(one)
        for one in graph.foreign
        if one.imported.partition(".")[0] == "triton"
        and one.importer.startswith("sglang_platform.core.")
        and not one.importer.startswith(f"{TRITON_ROOM}.")
    ]


def test_an_undeclared_import_is_seen(tmp_path: Path) -> None:
    (tmp_path / "device.py").write_text("def later():\n    import torch\n    import pluggy\n")
    package = Package("sglang-platform-cuda", modules_below(tmp_path))
    with pytest.raises(CheckFailed, match="imported and not required: pluggy"):
        dependencies_are_declared(package)


def test_triton_elsewhere_is_seen(tmp_path: Path) -> None:
    for name in ("core/ops/norm.py", "core/portable/triton/norm.py", "cuda/kernels/decode.py"):
        path = tmp_path / "sglang_platform" / name
        path.parent.mkdir(parents=True)
        path.write_text("import triton\nimport triton.language as tl\n")
    told = _triton_elsewhere(read_graph(modules_below(tmp_path)))
    assert len(told) == 2
    assert all("core/ops/norm.py" in one for one in told)
