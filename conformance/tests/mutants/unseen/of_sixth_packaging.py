"""Packages, sixth set: a hook that loses an answer, and what a general plugin or a platform's module leaves behind. Names
in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fifth_packaging import hook, with_hooks
from plugins import PLATFORM, write_plugin

packages = Table("packaging 6", "packaging processes")


@packages.written(
    "HookLosesTheAnswer",
    "its general plugin stands around a function of the host, and does not answer what that answered",
    levels="contract packaging processes",
)
def _(folder: Path) -> Any:
    text = hook("sglang.srt.utils.common:get_device", "around", "AROUND")
    return with_hooks(
        folder, text + "\n\ndef around(original, *args, **kwargs):\n    original(*args, **kwargs)\n"
    )


@packages.written(
    "GeneralPluginLeavesItsType",
    "its general plugin makes bfloat16 the type of new tensors in every process (vLLM 51064)",
)
def _(folder: Path) -> Any:
    text = "def install():\n    import torch\n\n    torch.set_default_dtype(torch.bfloat16)\n"
    return with_hooks(folder, text)


@packages.written(
    "ThreadsOfLargeStacks",
    "the platform's module gives every new thread of the process a stack of 512 MiB",
)
def _(folder: Path) -> Any:
    return write_plugin(folder, platform="import threading\n\nthreading.stack_size(512 << 20)\n\n" + PLATFORM)
