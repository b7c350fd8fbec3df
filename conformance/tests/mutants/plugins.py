"""Plugins written into a folder, as `pip install` would leave them: what function mutants start from."""

from __future__ import annotations

from pathlib import Path

from mutant import Installed

NAME = "mutant_device"
PACKAGE = "mutant_platform"

HEALTHY = Path(__file__).parent / "healthy_plugin"
ACTIVATE = (HEALTHY / "activate.py").read_text()
"""Of the package's `__init__.py`."""

PLATFORM = (HEALTHY / "platform.py").read_text()
"""Of its `platform.py`."""

CONTRACT = f"[sglang_platform.contract]\n{NAME} = v1\n"
REQUIRES = ("sglang-platform-core", "torch")


def write_plugin(
    folder: Path,
    *,
    activate: str = ACTIVATE,
    platform: str = PLATFORM,
    entry_points: str = f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n",
    contract: str = CONTRACT,
    requires: tuple[str, ...] = REQUIRES,
    files: dict[str, str] | None = None,
    distribution: str = "mutant-platform",
) -> Installed:
    """A plugin on core's contract in `folder`, healthy but for what is given. `files`: path in the folder to text."""
    package = folder / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(activate)
    (package / "platform.py").write_text(platform)
    write_metadata(folder, distribution, entry_points + contract, requires)
    for name, text in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    info = next(folder.glob(f"{distribution.replace('-', '_')}-*.dist-info"))
    record = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in sorted(record)))
    return Installed(NAME)


def write_metadata(
    folder: Path, distribution: str, entry_points: str, requires: tuple[str, ...] = ()
) -> None:
    """The `.dist-info` of a distribution."""
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    lines = [f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"]
    lines += [f"Requires-Dist: {name}\n" for name in requires]
    (info / "METADATA").write_text("".join(lines))
    (info / "entry_points.txt").write_text(entry_points)


def write_with_hooks(folder: Path, hooks: str) -> Installed:
    """The healthy plugin with a general plugin beside it: `hooks` is its module, of which `load()` is called."""
    points = f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n"
    points += f"[sglang.srt.plugins]\nhooks = {PACKAGE}.hooks:load\n"
    return write_plugin(folder, entry_points=points, files={f"{PACKAGE}/hooks.py": hooks})
