"""`doctor`'s findings on the plugin as if it were installed, from a subprocess that calls its `activate()`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.devtools.check.project import Project
from sglang_platform.devtools.check.remark import Level, Remark

__all__ = ["examine_installation", "unpacked"]

_LONGEST = 180
"""Timeout of the subprocess in seconds."""

_MOST_FILES = 20_000
_MOST_BYTES = 2 << 30


def examine_installation(project: Project, source: Path | None) -> Iterator[Remark]:
    """`source`: a folder or a wheel; None for what is installed. Findings on other plugins are left out."""
    if not project.name:
        yield _not_asked("its metadata has no name")
        return
    with tempfile.TemporaryDirectory(prefix="sglang-platform-check-") as staging:
        try:
            paths = [] if source is None else _paths(project, source.resolve(), Path(staging))
        except (OSError, ConfigurationError) as error:
            yield _not_asked(str(error))
            return
        answer = _doctor(project, paths)
        roots = [one.resolve() for one in (Path(staging), *([source] if source is not None else []))]
    if isinstance(answer, str):
        yield _not_asked(answer)
        return
    wanted = project.name.lower().replace("_", "-").replace(".", "-")
    for finding in answer:
        plugin = finding.get("plugin") or {}
        name = str(plugin.get("distribution") or "").lower().replace("_", "-").replace(".", "-")
        if name != wanted or finding["id"] in ("platform-decided", "distribution-hidden"):
            continue
        level: Level = finding["severity"]
        place = _place(finding.get("where"), roots)
        yield Remark(
            "installation",
            finding["id"],
            level,
            finding["what"],
            *place,
            finding.get("why"),
            finding.get("fix"),
        )


def _place(where: str | None, roots: list[Path]) -> tuple[str | None, int | None]:
    """A finding's file, relative to the plugin's folder or wheel, and its line; None for a file outside both."""
    file, _, line = (where or "").rpartition(":")
    for root in roots:
        if file and line.isdigit() and Path(file).resolve().is_relative_to(root):
            return Path(file).resolve().relative_to(root).as_posix(), int(line)
    return None, None


def _not_asked(why: str) -> Remark:
    return Remark(
        "installation", "doctor-unasked", "note", "the plugin could not be asked as an installed one", why=why
    )


def _paths(project: Project, source: Path, staging: Path) -> list[Path]:
    """The folders to put first on `sys.path`: the sources, and metadata generated from `pyproject.toml`."""
    if source.is_file():
        unpacked(source, staging)
        return [staging]
    info = staging / f"{str(project.name).replace('-', '_')}-{project.version or '0'}.dist-info"
    info.mkdir()
    wanted = "".join(f"Requires-Dist: {one}\n" for one in project.requirements)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project.name}\nVersion: {project.version or '0'}\n{wanted}",
        encoding="utf-8",
    )
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project.entry_points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
    root = source / "src" if (source / "src").is_dir() else source
    return [staging, root]


def unpacked(wheel: Path, folder: Path) -> None:
    """A wheel unpacked into `folder`, never outside it. Raises ConfigurationError if it is too large or malformed."""
    with zipfile.ZipFile(wheel) as archive:
        members = archive.infolist()
        if len(members) > _MOST_FILES or sum(one.file_size for one in members) > _MOST_BYTES:
            raise ConfigurationError(f"{wheel.name} is too large to be unpacked for a check")
        for one in members:
            place = (folder / one.filename).resolve()
            if not place.is_relative_to(folder.resolve()):
                raise ConfigurationError(f"{wheel.name} has a file outside of itself: {one.filename!r}")
            archive.extract(one, folder)


def _doctor(project: Project, paths: list[Path]) -> list[dict[str, Any]] | str:
    """The findings, or why `doctor` gave none."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("SGLANG_PLATFORM")
    }
    environment["PYTHONPATH"] = os.pathsep.join(
        [*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    names = list(project.entry_points.get("sglang.srt.platforms", {}))
    if len(names) == 1:
        environment["SGLANG_PLATFORM"] = names[0]
    code = "import sys; from sglang_platform.core.cli import main; sys.argv[0] = 'sglang-platform'; main()"
    command = [sys.executable, "-c", code, "doctor", "--source-only", "--import-class", "--json"]
    with tempfile.TemporaryDirectory() as elsewhere:
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd=elsewhere,
                capture_output=True,
                text=True,
                check=False,
                timeout=_LONGEST,
            )
        except subprocess.TimeoutExpired:
            return f"no answer after {_LONGEST} seconds"
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    except (ValueError, KeyError):
        last = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()[
            -1
        ]
        return f"the process ended without an answer: {last[:300]}"
    return found
