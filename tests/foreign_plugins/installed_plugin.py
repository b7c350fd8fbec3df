"""A plugin of `plugins/`, copied and installed beside this environment: its metadata is written next to its modules."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import tomllib
from command_runner import WIDE

PLUGINS = Path(__file__).parent / "plugins"


class Edit(NamedTuple):
    """One change of a plugin's text. `old` stands in the file exactly once; where it is empty, the file is made."""

    file: str
    old: str
    new: str

    @property
    def undone(self) -> Edit:
        return Edit(self.file, self.new, self.old)


class InstalledPlugin:
    """A copy of one plugin, and SGLang's environment as it is with that copy installed."""

    def __init__(self, name: str, folder: Path, plugins: Path = PLUGINS) -> None:
        self.name = name
        self.folder = folder / name
        shutil.copytree(plugins / name, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        self._path = [str(self.sources)]
        self._write_metadata()

    def beside(self, other: InstalledPlugin) -> None:
        """Install another plugin in the same environment."""
        self._path.append(str(other.sources))

    @property
    def sources(self) -> Path:
        """The folder that is on the path."""
        inner = self.folder / "src"
        return inner if inner.is_dir() else self.folder

    @property
    def distribution(self) -> str:
        return str(self._project["name"])

    def edit(self, *edits: Edit) -> None:
        """Apply changes, and install again where they are of the packaging."""
        for file, old, new in edits:
            path = self.folder / file
            text = path.read_text() if path.exists() else ""
            assert old == "" or text.count(old) == 1, f"{file} has {text.count(old)} times:\n{old}"
            if new == "" and text == old:
                path.unlink()
            else:
                path.write_text(text.replace(old, new) if old else text + new)
        self._write_metadata()

    def line(self, file: str, text: str) -> int:
        """The number of the one line of a file that has this text."""
        lines = (self.folder / file).read_text().splitlines()
        found = [number for number, line in enumerate(lines, 1) if text in line]
        assert len(found) == 1, f"{file} has {text!r} in lines {found}"
        return found[0]

    def run(
        self, *command: str, timeout: float = 900, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment with the copy installed."""
        return subprocess.run(
            [sys.executable, *command],
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of a process that has the copy installed, and `more`."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("SGLANG_")}
        path = [*self._path, *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**clean, "PYTHONPATH": os.pathsep.join(path), "COLUMNS": WIDE, **more}

    def command(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `sglang-platform` with these arguments."""
        program = "from sglang_platform.core.cli import main; main()"
        return self.run("-W", "ignore", "-c", program, *arguments, **environment)

    def json(self, *arguments: str, **environment: str) -> Any:
        """The document that the command writes with `--json`."""
        done = self.command(*arguments, "--json", **environment)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def findings(self, *options: str, **environment: str) -> list[dict[str, Any]]:
        """What `doctor` finds of this plugin or of none in particular; what is only told of the decision left out."""
        told = ("platform-decided", "platform-declined")
        found = self.json("doctor", *options, **environment)["findings"]
        return [
            one
            for one in found
            if one["id"] not in told
            and (one["plugin"] or {}).get("distribution") in (None, self.distribution)
        ]

    def hooks(self) -> list[dict[str, Any]]:
        """What `hooks check` says of each hook of this plugin, in the form of a finding: the verdict is its id."""
        rows = self.json("hooks", "check")["targets"]
        return [
            {
                "id": row["verdict"],
                "severity": "note" if row["verdict"] in ("exists", "unknown") else "problem",
                "what": row["target"],
                "why": row["why"],
                "fix": " ".join((*row["moved_to"], *row["nearest"])),
                "where": row["where"],
            }
            for row in rows
            if f"({self.distribution} " in row["plugin"]
        ]

    @property
    def _project(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]

    def _write_metadata(self) -> None:
        project = self._project
        for older in self.sources.glob("*.dist-info"):
            shutil.rmtree(older)
        info = self.sources / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
        lines += [f"Requires-Dist: {one}" for one in project.get("dependencies", ())]
        (info / "METADATA").write_text("\n".join([*lines, ""]))
        groups = project.get("entry-points", {})
        (info / "entry_points.txt").write_text(
            "\n".join(
                f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items())
                for group, names in groups.items()
            )
        )
