"""The house rules on imports, held over the sources of our distributions, and each seen to fail."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from findings import refuse
from import_graph import OURS, Graph, circles, modules_below, our_graph, read_graph
from rooms import BESIDE_CORE, CORE_ROOMS, PUBLIC_NAMES, wrong_arrows

RUN_IN_A_HOST = {
    "sglang_platform.core.sglang": "the adapter",
    "sglang_platform.conformance.host": "processes of the engine that the suite starts",
    "sglang_platform.conformance.kits": "processes of SGLang's own test kits",
    "sglang_platform.conformance.parts.sglang": "the parts as SGLang builds them",
    "sglang_platform.conformance.reference.on_sglang": "a platform on SGLang's own classes, without core",
    "sglang_platform.conformance.reference.on_sglang_parts": "the parts of that platform",
    "sglang_platform.example_oot.quantization": "a vendor's quantisation config, which SGLang wants on its own class",
}
"""The rooms that may import SGLang, and what each is; nothing else does, not even inside a function."""


@pytest.fixture(scope="module")
def graph() -> Graph:
    return our_graph()


def test_no_circle_of_files(graph: Graph) -> None:
    refuse(_circles(graph), "no circle of files")


def test_arrows_go_one_way_between_rooms(graph: Graph) -> None:
    refuse(wrong_arrows(graph.own), "a room imports only rooms below it")


def test_every_room_is_there(graph: Graph) -> None:
    modules = {f"{OURS}.core.{room}" for room in CORE_ROOMS} | {f"{OURS}.{name}" for name in BESIDE_CORE}
    refuse(sorted(modules - graph.modules.keys()), "the order names rooms that exist")


def test_only_the_adapter_imports_sglang(graph: Graph) -> None:
    refuse(_imports_of_the_host(graph), "only what runs in a process of SGLang imports it")


def test_imports_inside_functions_say_why(graph: Graph) -> None:
    refuse(_unexplained(graph), "an import inside a function says why it stands there")


def test_what_is_imported_exists(graph: Graph) -> None:
    refuse([str(one) for one in graph.missing], "what is imported exists")


def _circles(graph: Graph) -> list[str]:
    """Each circle with its arrows. Imports inside functions and for type checkers count: they tie files as well."""
    arrows: dict[str, set[str]] = defaultdict(set)
    for one in graph.own:
        arrows[one.importer].add(one.imported)
    told = []
    for circle in circles(arrows):
        inside = [one for one in graph.own if one.importer in circle and one.imported in circle]
        lines = [f"  {one} ({one.where})" for one in inside]
        told.append("\n".join([f"circle of {len(circle)} files:", *lines]))
    return told


def _imports_of_the_host(graph: Graph) -> list[str]:
    return [
        str(one)
        for one in graph.foreign
        if one.imported.partition(".")[0] in ("sglang", "sgl_kernel")
        and not any(f"{one.importer}.".startswith(f"{room}.") for room in RUN_IN_A_HOST)
    ]


def _unexplained(graph: Graph) -> list[str]:
    return [str(one) for one in graph.own if one.where == "function" and not one.explained]


# The rules themselves, on small trees with one fault each.


def tree(folder: Path, files: dict[str, str]) -> Graph:
    """The graph of files below `sglang_platform/`, every folder a package."""
    for name, text in files.items():
        path = folder / OURS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for package in path.parents:
            if package == folder / OURS:
                break
            (package / "__init__.py").touch()
    return read_graph(modules_below(folder))


CORE = f"{OURS}.core"


@pytest.mark.parametrize(
    "back",
    [
        f"import {CORE}.a.one",
        "from ..a import one",
        f"def later():\n    # a reason is no excuse\n    from {CORE}.a.one import x",
        f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from {CORE}.a.one import x",
        f"import importlib\ndef later():\n    importlib.import_module('{CORE}.a.one')",
    ],
    ids=["module", "relative", "inside a function", "for a type checker", "by name"],
)
def test_a_circle_is_seen(tmp_path: Path, back: str) -> None:
    files = {"core/a/one.py": f"from {CORE}.b import two", "core/b/two.py": f"from {CORE}.b.three import x"}
    assert not _circles(tree(tmp_path, {**files, "core/b/three.py": ""}))
    (told,) = _circles(tree(tmp_path, {**files, "core/b/three.py": back}))
    assert told.startswith("circle of 3 files")


def test_an_arrow_up_is_seen(tmp_path: Path) -> None:
    down = {"core/contract/device.py": f"from {CORE}.errors import E", "core/errors.py": ""}
    assert not wrong_arrows(tree(tmp_path, down).own)
    (told,) = wrong_arrows(tree(tmp_path, {**down, "core/errors.py": f"import {CORE}.contract.device"}).own)
    assert "contract stands above errors" in told


@pytest.mark.parametrize(
    ("importer", "imported", "told"),
    [
        ("core/cli/app.py", f"{OURS}.cuda.probe", "cuda is imported by nobody"),
        ("rocm/device.py", f"{OURS}.cuda.probe", "cuda is imported by nobody"),
        ("core/hooks/site.py", f"{OURS}.conformance.check", "conformance is imported by nobody"),
        ("cuda/platform.py", f"{OURS}.conformance.check", "conformance is imported by nobody"),
        ("conformance/cli.py", f"{OURS}.example_oot.device", "example_oot is imported by nobody"),
        ("core/hooks/site.py", CORE, f"{PUBLIC_NAMES} stands above hooks"),
        ("core/hooks/site.py", f"{CORE}.attic.old", "'attic' has no place"),
    ],
)
def test_an_arrow_to_the_wrong_house_is_seen(tmp_path: Path, importer: str, imported: str, told: str) -> None:
    target = imported.removeprefix(f"{OURS}.").replace(".", "/") + (
        "/__init__.py" if imported == CORE else ".py"
    )
    (wrong,) = wrong_arrows(tree(tmp_path, {importer: f"import {imported}", target: ""}).own)
    assert told in wrong


@pytest.mark.parametrize(
    ("importer", "count"),
    [("core/doctor/discovery.py", 2), ("cuda/platform.py", 2), ("core/sglang/rebase.py", 0)],
)
def test_an_import_of_sglang_elsewhere_is_seen(tmp_path: Path, importer: str, count: int) -> None:
    text = "def later():\n    import sglang.srt\n    from sgl_kernel import store\n"
    assert len(_imports_of_the_host(tree(tmp_path, {importer: text}))) == count


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("def f():\n    {one}\n", 1),
        ("def f():\n    {one}  # noqa: PLC0415\n", 1),
        ("class C:\n    async def f(self):\n        if self:\n            {one}\n", 1),
        ("f = lambda: __import__('sglang_platform.core.memory.pool')\n", 1),
        ("def f():\n    # Listing plugins must not import torch.\n    x = 1\n    {one}\n", 1),
        ("def f():\n    {one}  # imports torch\n", 0),
        ("def f():\n    # Listing plugins must not import torch.\n    {one}\n    {two}\n", 0),
        ("# Imports inside functions: each part imports torch.\n\ndef f():\n    {one}\n", 0),
        ("{one}\n", 0),
    ],
)
def test_a_hidden_local_import_is_seen(tmp_path: Path, text: str, seen: int) -> None:
    one, two = f"from {CORE}.memory.pool import Pool", f"from {CORE}.memory.rows import Row"
    files = {"core/memory/pool.py": "", "core/memory/rows.py": ""}
    graph = tree(tmp_path, {**files, "core/sglang/parts.py": text.format(one=one, two=two)})
    assert len(_unexplained(graph)) == seen


def test_an_import_of_nothing_is_seen(tmp_path: Path) -> None:
    graph = tree(tmp_path, {"core/errors.py": f"from {CORE}.gone import x\nfrom {OURS} import core"})
    assert [one.imported for one in graph.missing] == [f"{CORE}.gone.x"]
