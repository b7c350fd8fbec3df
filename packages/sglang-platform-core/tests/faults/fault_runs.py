"""Runs faults: on sglang-platform in a process each, on SGLang in forks of one process that has it imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_definition import Fault, write

from sglang_platform.conformance.host.stacks import completed

__all__ = ["Run", "run_on_core", "run_on_host"]

_HERE = Path(__file__).parent

_HOST_HOMES = {
    "HookRegistry": "sglang.srt.plugins.hook_registry",
    "HookType": "sglang.srt.plugins.hook_registry",
    "RETURN_NONE": "sglang.srt.plugins.hook_registry",  # where it would be
    "SRTPlatform": "sglang.srt.platforms.interface",
    "current_platform": "sglang.srt.platforms",
    "load_plugins": "sglang.srt.plugins",
    "platform_plugin": "touch",  # whose decorator does nothing
}
"""Where SGLang has what `sglang_platform.core` gives under the same name."""


@dataclass(frozen=True)
class Run:
    """How one fault ended on sglang-platform."""

    status: int
    output: str
    errors: str
    outcome: Mapping[str, Any]

    def source(self, ends: str) -> str:
        """The text in which a fault that ends so has its message."""
        if ends == "warning":
            return "\n".join(self.outcome["warnings"])
        if ends == "doctor":
            return self.output
        if ends == "said":
            return self.errors
        if ends in ("report", "trace", "right"):
            return str(self.outcome["report" if ends == "report" else "trace"])
        return str(self.outcome["error"]["text"]) if self.outcome["error"] else ""


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without SGLang's variables and without an accelerator."""
    kept = {name: value for name, value in environ.items() if not name.startswith("SGLANG_")}
    return {**kept, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "COLUMNS": "200"}


def run_on_core(fault: Fault, folder: Path, libraries: Path) -> Run:
    """In a process of its own that imports neither torch nor SGLang and sees no installed plugin.

    libraries: a folder with what core imports, without metadata.
    """
    import sglang_platform.core

    write(fault, folder, lambda name: "sglang_platform.core")
    source = str(Path(sglang_platform.core.__path__[0]).parents[1])
    done = subprocess.run(
        [sys.executable, "-S", str(_HERE / "fault_outcome.py"), str(folder)],
        env={
            **clean(os.environ),
            "PYTHONPATH": os.pathsep.join([str(folder), source, str(libraries)]),
            **fault.environment,
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (folder / "outcome.json").exists(), done.stdout + done.stderr
    return Run(done.returncode, done.stdout, done.stderr, json.loads((folder / "outcome.json").read_text()))


def run_on_host(faults: Sequence[Fault], folder: Path) -> dict[str, Any]:
    """Outcomes by fault name, and SGLang's version under the empty name."""
    for fault in faults:
        write(fault, folder / fault.name, _HOST_HOMES.__getitem__)
    jobs = {fault.name: dict(fault.environment) for fault in faults}
    (folder / "jobs.json").write_text(json.dumps(jobs))
    done = completed(
        [sys.executable, _HERE / "fault_on_host.py", str(folder)],
        env={**clean(os.environ), "SGLANG_PLUGINS": "none"},
        seconds=900,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads((folder / "outcomes.json").read_text())  # type: ignore[no-any-return]
