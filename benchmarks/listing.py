"""Listing the installed plugins: the contenders, the folders of distributions they list, and their times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import OURS, Aim, FreshPython, Times, row, spread

__all__ = ["listing"]

SIZES = (50, 500, 2000)
PLUGINS = 3
"""How many entry points of the two groups there are in a folder, each of another distribution."""

_CONTENDERS = {
    OURS: (
        "from sglang_platform.core.discovery import scan",
        """
    scan.invalidate()
    return [(record.name, *record.origin[1:]) for group in GROUPS for record in scan.records(group)]""",
    ),
    "bare scan": (
        "import os",
        """
    found = []
    for folder in sys.path:
        try:
            children = os.listdir(folder)
        except OSError:
            continue
        for child in children:
            if child.endswith((".dist-info", ".egg-info")):
                try:
                    file = os.open(f"{folder}/{child}/entry_points.txt", os.O_RDONLY)
                except FileNotFoundError:
                    continue
                if b"sglang" in os.read(file, 16384):
                    found.append(child)
                os.close(file)
    return found""",
    ),
    **{
        name: (
            f"import importlib, {name} as metadata",
            """
    importlib.invalidate_caches()
    found = metadata.entry_points()
    return [(point.name, point.dist.name, point.dist.version) for g in GROUPS for point in found.select(group=g)]""",
        )
        for name in ("importlib.metadata", "importlib_metadata")
    },
    "pluggy": (
        "import importlib, pluggy",
        """
    importlib.invalidate_caches()
    manager = pluggy.PluginManager("bench")
    for group in GROUPS:
        manager.load_setuptools_entrypoints(group)
    return [(dist.project_name, dist.version) for plugin, dist in manager.list_plugin_distinfo()]""",
    ),
}
"""How each contender lists the plugins of both groups with name and version of their distributions; pluggy can only
load them too. The bare scan just says which distributions mention sglang."""

_LIST_AND_TIME = """
import json, sys, time
{imports}
GROUPS = ("sglang.srt.platforms", "sglang.srt.plugins")
sys.path[:] = [path for path in sys.path if path.startswith(sys.base_prefix)] + [{folder!r}]
def list_plugins():{body}
times = []
for _ in range(6):
    wall, cpu = time.perf_counter(), time.process_time()
    found = list_plugins()
    times.append(((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3))
print(json.dumps([len(found), times]))
"""


def listing(python: FreshPython, folder: Path, repeats: int) -> Iterator[dict[str, Any]]:
    """Each contender in processes of its own, since importlib_metadata takes the standard library's place."""
    for size in SIZES:
        distributions = folder / str(size)
        write_distributions(distributions, size)
        first: dict[str, Times] = {name: Times([], []) for name in _CONTENDERS}
        again: dict[str, Times] = {name: Times([], []) for name in _CONTENDERS}
        for _ in range(repeats):
            for name, (imports, body) in _CONTENDERS.items():
                code = _LIST_AND_TIME.format(imports=imports, body=body, folder=str(distributions))
                count, times = json.loads(python.output(code))
                if count != PLUGINS:
                    raise AssertionError(f"{name} lists {count} of {PLUGINS} plugins")
                for (wall, cpu), record in zip(times, [first[name]] + [again[name]] * 5, strict=True):
                    record.wall.append(wall)
                    record.cpu.append(cpu)
        aim = Aim("within 2x of the bare scan", 2, "bare scan")
        for case, record in (("first", first), ("repeated", again)):
            cpu = {name: times.cpu for name, times in record.items()}
            wall = {name: spread(times.wall) for name, times in record.items()}
            yield row("listing", f"{size} distributions, {case}", "ms", cpu, aim, wall=wall)


_METADATA = """Metadata-Version: 2.4
Name: {name}
Version: 1.0
Summary: {name} is installed
Requires-Python: >=3.10
Requires-Dist: packaging>=23.2
Requires-Dist: typing_extensions; python_version < "3.12"
Description-Content-Type: text/markdown

# {name}

"""
_SCRIPTS = "[console_scripts]\n{name} = {module}.command:main\n{name}-check = {module}.command:check\n"


def write_distributions(folder: Path, count: int) -> None:
    """`count` distributions with nothing but metadata; a third has entry points, as in an environment with SGLang."""
    folder.mkdir(parents=True)
    for i in range(count):
        module, name = f"distribution_{i:04}", f"distribution-{i:04}"
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(_METADATA.format(name=name) + "It does what its name says.\n" * 60)
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        (info / "INSTALLER").write_text("pip\n")
        (info / "RECORD").write_text("".join(f"{module}/file_{n}.py,,\n" for n in range(20)))
        if i % 3 == 0:
            text = _SCRIPTS.format(name=name, module=module)
            if i // 3 < PLUGINS:
                group = "sglang.srt.plugins" if i else "sglang.srt.platforms"
                text += f"\n[{group}]\nplugin_{i} = {module}:load\n"
                (folder / f"{module}.py").write_text("def load():\n    return None\n")
            (info / "entry_points.txt").write_text(text)
