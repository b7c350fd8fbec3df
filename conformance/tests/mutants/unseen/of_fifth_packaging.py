"""Packages, fifth set: general plugins and their hooks, a probe that holds the device, a group that nobody reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fourth_diffusion import GROUPS
from of_third_packaging import asked
from plugins import HEALTHY, NAME, PACKAGE, write_plugin

packages = Table("packaging 5", "packaging processes")

GENERAL = (
    f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n"
    f"[sglang.srt.plugins]\n{NAME}_hooks = {PACKAGE}.hooks:install\n"
)


def with_hooks(folder: Path, text: str) -> Any:
    """The healthy plugin with a general plugin beside it: `text` is its module."""
    return write_plugin(folder, entry_points=GENERAL, files={f"{PACKAGE}/hooks.py": text})


def hook(target: str, function: str, kind: str) -> str:
    return (
        "from sglang_platform.core import HookRegistry, HookType\n\n\n"
        f"def install():\n    HookRegistry.register({target!r}, {function}, HookType.{kind})\n"
    )


@packages.written("AskedImportsTorch", "the question imports torch in every process (vllm-plugin-FL 215)")
def _(folder: Path) -> Any:
    return write_plugin(folder, activate=asked("    import torch\n\n    torch.zeros(1)\n"))


@packages.written(
    "ProbeHoldsTheDevice",
    "the process that asks first locks the device, and all others are told that it is not there",
)
def _(folder: Path) -> Any:
    text = (
        "    import fcntl\n    import os\n    import tempfile\n\n"
        "    global HELD\n"
        "    HELD = open(os.path.join(tempfile.gettempdir(), f'mutant-{os.getuid()}.lock'), 'w')\n"
        "    try:\n        fcntl.flock(HELD, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    except OSError:\n        return None\n"
    )
    return write_plugin(folder, activate=asked(text))


@packages.written("HookOfNobody", "its general plugin hooks a function that no release has: the launch stops")
def _(folder: Path) -> Any:
    return with_hooks(folder, hook("sglang.srt.utils.common:get_devise", "lambda: 'cpu'", "REPLACE"))


@packages.written(
    "HookTakesTooFew",
    "its general plugin replaces a function by one with fewer arguments: the launch stops",
    levels="contract packaging processes",
)
def _(folder: Path) -> Any:
    return with_hooks(
        folder, hook("sglang.srt.utils.common:get_available_gpu_memory", "lambda device: 1.0", "REPLACE")
    )


@packages.written(
    "GeneralPluginNeedsUnstated", "its general plugin imports a package that it does not require"
)
def _(folder: Path) -> Any:
    return with_hooks(
        folder, "import acme_kernels_of_nobody\n\n\ndef install():\n    acme_kernels_of_nobody.load()\n"
    )


@packages.written(
    "GeneralPluginOfTwoMinutes",
    "its general plugin waits two minutes in every process for tuning that it could do later",
)
def _(folder: Path) -> Any:
    return with_hooks(folder, "import time\n\n\ndef install():\n    time.sleep(120)\n")


@packages.written(
    "DiffusionGroupMisspelt", "the diffusion platform is registered in a group that nobody reads"
)
def _(folder: Path) -> Any:
    files = {
        f"{PACKAGE}/mm.py": (HEALTHY / "diffusion.py").read_text(),
        f"{PACKAGE}/mm_attention.py": (HEALTHY / "attention.py").read_text(),
    }
    groups = GROUPS.replace("sglang.multimodal_gen.platforms", "sglang.multimodal_gen.platform")
    return write_plugin(folder, entry_points=groups, files=files)


@packages.written(
    "HealthyHook", "its general plugin watches a function of the host, and changes nothing", healthy=True
)
def _(folder: Path) -> Any:
    text = hook("sglang.srt.utils.common:get_device", "watch", "AFTER")
    return with_hooks(folder, text + "\n\ndef watch(result, *args, **kwargs):\n    return None\n")
