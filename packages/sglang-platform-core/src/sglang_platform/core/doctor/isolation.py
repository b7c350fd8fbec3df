"""Detects plugins that can be imported only from this folder or with this PYTHONPATH.

Their metadata is installed, so every process finds the entry point. Whether the module is found depends on the working
directory and environment of the process. The check searches the path of an interpreter in an empty folder, without
PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.kind import installed_plugins
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.doctor.entry_points import reference
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.installed.modules import find, interpreter_flags

__all__ = ["examine_isolation"]


def examine_isolation() -> Iterator[Finding]:
    """A warning for each plugin whose metadata is found everywhere but whose module is not."""
    here: dict[EntryPointRecord, tuple[str, ModuleSpec]] = {}
    for record in installed_plugins():
        module, _ = reference(record.value)
        spec = find(module)[0] if module else None
        if spec is not None and record.origin.distribution:
            here[record] = (module, spec)
    if not here:
        return
    try:
        path = _path_elsewhere()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        yield Finding(
            "isolation-unknown",
            "note",
            "whether the plugins can be imported from another folder could not be checked",
            None,
            f"{type(error).__name__}: {error}",
        )
        return
    distributions = {record.origin.distribution for record in scan.scan_paths(path).records}
    for record, (module, spec) in here.items():
        if record.origin.distribution in distributions and find(module, path)[0] is None:
            place = spec.origin or next(iter(spec.submodule_search_locations or ()), "")
            yield Finding(
                "importable-from-here-only",
                "warning",
                f"the plugin {record.name!r} is importable from this folder only"
                if not _through_pythonpath(place)
                else f"the plugin {record.name!r} is importable with this PYTHONPATH only",
                record.origin,
                f"{record.origin.distribution} is installed, but {module} is found at {place} alone, which a process "
                "started elsewhere does not search: there the plugin fails",
                "pip install the distribution again (-e for development); for an editable install, check that its "
                "source folder is still where it was",
            )


def _path_elsewhere() -> list[str]:
    """`sys.path` in an empty folder, without PYTHONPATH. Raises OSError or subprocess.SubprocessError."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as empty:
        run = subprocess.run(
            [sys.executable, *interpreter_flags(), "-c", "import json, sys; print(json.dumps(sys.path))"],
            cwd=empty,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    path: list[str] = json.loads(run.stdout.splitlines()[-1])
    return [entry for entry in path if entry]


def _through_pythonpath(place: str) -> bool:
    entries = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return any(Path(place).is_relative_to(Path(entry).absolute()) for entry in entries)
