"""Calls SGLang's `load_plugins()` again after a failure, in one process for each case of a JSON file.

A case is `{"modules": {name: source}, "groups": {group: {name: value}}, "environment": {...}, "program": source}`. The
program calls `attempt()`, which prints "loaded" or the class and the text of what was raised.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any


def attempt() -> None:
    try:
        from sglang.srt.plugins import load_plugins
        from sglang.srt.server_args import ServerArgs  # noqa: F401

        load_plugins()
    except BaseException as error:  # noqa: BLE001
        outcome = f"refused {type(error).__name__} {error}"
    else:
        outcome = "loaded"
    sys.stdout.write(f"{outcome}\n")  # one write: threads do not mix their lines


def state() -> None:
    """The flag of SGLang, and each hook of a plugin of the case with its state."""
    import sglang.srt.plugins as theirs

    from sglang_platform.core.hooks.registry import HookRegistry

    print("flag", theirs._plugins_loaded)
    for row in HookRegistry.report():
        if row["plugin"] != "sglang_platform_core":
            print("hook", row["plugin"], row["hook"], row["state"])


def run(case: dict[str, Any], folder: Path) -> None:
    folder.mkdir()
    for name, source in case["modules"].items():
        (folder / f"{name}.py").write_text(source)
    for group, entries in case["groups"].items():
        for name, value in entries.items():
            info = folder / f"{name}_dist-1.0.dist-info"
            info.mkdir(exist_ok=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.0\n")
            with (info / "entry_points.txt").open("a") as file:
                file.write(f"[{group}]\n{name} = {value}\n")
    os.environ.update(case["environment"], COUNTS=str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, str(folder))
    with (folder / "output").open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        try:
            exec(case["program"], {"attempt": attempt, "state": state, "__name__": "case"})
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()


def main(cases: str, folder: str) -> None:
    for name, case in json.loads(Path(cases).read_text()).items():
        pid = os.fork()
        if pid == 0:
            run(case, Path(folder) / name)
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
