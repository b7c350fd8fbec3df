"""Loads general plugins beside the example platform in SGLang, in a fork for each case of a JSON file.

A case is a list of `[name, distribution, source]`; each source has `register()`. What came of it is written to a file.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import sglang.srt.layers.attention.attention_registry
import sglang.srt.layers.quantization
import sglang.srt.server_args  # noqa: F401 - core loads the plugins that are installed, here none

from sglang_platform.core import plugins
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.kind import SRT
from sglang_platform.core.errors import PlatformError


def run(case: list[list[str]], folder: Path) -> None:
    folder.mkdir()
    for name, distribution, source in case:
        (folder / f"{name}_mod.py").write_text(source)
        info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        file = info / "entry_points.txt"
        text = file.read_text() if file.exists() else "[sglang.srt.plugins]\n"
        file.write_text(f"{text}{name} = {name}_mod:register\n")
    sys.path.insert(0, str(folder))
    scan.invalidate()
    plugins.reset()
    outcome: dict[str, Any] = {"error": None}
    try:
        plugins.load_plugins()
    except PlatformError as error:
        outcome["error"] = [type(error).__name__, str(error)]
    outcome["conflicts"] = [str(one) for one in plugins.plugin_conflicts(SRT)]
    (folder / "outcome.json").write_text(json.dumps(outcome))


def main(cases: str, folder: str) -> None:
    text = Path(cases).read_text()
    if "sglang.srt.models.registry" in text:  # it imports every model of SGLang
        importlib.import_module("sglang.srt.models.registry")
    for name, case in json.loads(text).items():
        pid = os.fork()
        if pid == 0:
            try:
                run(case, Path(folder) / name)
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
