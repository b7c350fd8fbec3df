"""Packages, fourth set: modules of others in the distribution, files that the question leaves, what slows a process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_third_packaging import asked
from plugins import ACTIVATE, NAME, PACKAGE, PLATFORM, write_plugin

packages = Table("packaging 4", "packaging processes")

FIRST = "from sglang_platform.core import DeviceMixin"


def on_platform(text: str) -> str:
    """The platform's module with lines of its own before core is imported."""
    return PLATFORM.replace(FIRST, f"{text}\n\n{FIRST}")


@packages.written(
    "ShipsAFakeTriton", "the distribution brings an empty package `triton` that hides the real one"
)
def _(folder: Path) -> Any:
    return write_plugin(folder, files={"triton/__init__.py": '__version__ = "3.0.0"\n'})


@packages.written(
    "ShipsASitecustomize", "the distribution brings a sitecustomize that runs in every Python process"
)
def _(folder: Path) -> Any:
    text = "import os\n\nos.environ['MUTANT_DEVICE'] = '1'\n"
    return write_plugin(folder, files={"sitecustomize.py": text})


@packages.written("WritesBesideItself", "each question writes a file into the package's own folder")
def _(folder: Path) -> Any:
    text = "    from pathlib import Path\n\n    Path(__file__).with_name('probed').write_text('yes')\n"
    return write_plugin(folder, activate=asked(text))


@packages.written(
    "PlatformProfiles", "the platform's module leaves a profiler on: each call of Python is slower"
)
def _(folder: Path) -> Any:
    return write_plugin(folder, platform=on_platform("import sys\n\nsys.setprofile(lambda *args: None)"))


@packages.written(
    "ExitTakesHalfAMinute", "the platform's module registers a function that takes 30 s at exit"
)
def _(folder: Path) -> Any:
    return write_plugin(
        folder, platform=on_platform("import atexit\nimport time\n\natexit.register(time.sleep, 30)")
    )


@packages.written(
    "HealthyNamespace", "the function that is asked lives in a package without __init__.py", healthy=True
)
def _(folder: Path) -> Any:
    installed = write_plugin(
        folder,
        entry_points=f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}.entry:activate\n",
        files={f"{PACKAGE}/entry.py": ACTIVATE},
    )
    (folder / PACKAGE / "__init__.py").unlink()
    return installed
