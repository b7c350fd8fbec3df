"""Runs faults on SGLang's own framework. SGLang is imported once, each fault has a fork of that process to itself.

Its parent starts it with SGLANG_PLUGINS=none, so that no installed plugin is loaded while SGLang is imported.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import Any

__all__: list[str] = []


def main(folder: Path) -> None:
    importlib.import_module("sglang.srt.plugins.hook_registry")

    assert "torch" in sys.modules, "the forks inherit torch, which the hook registry alone does not import"
    importlib.import_module("sglang.srt.platforms")
    from sglang.version import __version__

    jobs: dict[str, dict[str, str]] = json.loads((folder / "jobs.json").read_text())
    outcomes: dict[str, Any] = {"": __version__}
    for name, environment in jobs.items():
        child = os.fork()
        if child == 0:
            _become(folder / name, environment)
        _, status = os.waitpid(child, 0)
        path = folder / name / "outcome.json"
        assert path.exists(), f"{name} ended with {status} and no outcome"
        outcomes[name] = json.loads(path.read_text())
    (folder / "outcomes.json").write_text(json.dumps(outcomes))


def _become(folder: Path, environment: dict[str, str]) -> None:
    """Be a process that has SGLang imported, nothing resolved, and the fault's distributions alone installed."""
    import fault_outcome
    import sglang.srt.platforms
    import sglang.srt.plugins

    try:
        libraries = [entry for entry in sys.path if any(Path(entry or ".").glob("*.dist-info"))]
        sys.path[:] = [str(folder), *(entry for entry in sys.path if entry not in libraries)]
        sys.path_importer_cache.clear()
        sys.meta_path.append(fault_outcome.Libraries(*libraries))
        sglang.srt.platforms._current_platform = None
        sglang.srt.plugins._plugins_loaded = False
        os.environ.pop("SGLANG_PLUGINS", None)
        os.environ.update(environment)
        for handler in list(logging.getLogger().handlers):
            logging.getLogger().removeHandler(handler)
        outcome, _ = fault_outcome.observe(folder)
        (folder / "outcome.json").write_text(json.dumps(outcome))
    except BaseException:  # noqa: BLE001 the fork must not go on as its parent
        traceback.print_exc()
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
