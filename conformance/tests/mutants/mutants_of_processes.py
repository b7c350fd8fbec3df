"""Level 6 mutants: plugins that are another thing in the next process."""

from __future__ import annotations

import os
from pathlib import Path

from mutant import Installed, mutant
from plugins import ACTIVATE, PACKAGE, PLATFORM, write_plugin, write_with_hooks


@mutant(
    check="processes.child_processes_agree",
    defect="the platform declares what the first process found out, which a spawned one does not know",
    says="in a spawned process",
)
def capability_of_the_first_process(folder: Path) -> Installed:
    text = PLATFORM + (
        "\n    @property\n    def capabilities(self):\n        import multiprocessing\n"
        "        from sglang_platform.core import PlatformCapabilities\n"
        "        return PlatformCapabilities(supports_triton=multiprocessing.parent_process() is None)\n"
    )
    return write_plugin(folder, platform=text)


@mutant(
    check="processes.child_processes_agree",
    defect="activate() refuses in a process that was spawned by another than the launcher (it looks at sys.argv)",
    says="spawned process",
)
def declines_in_children(folder: Path) -> Installed:
    probe = "    import multiprocessing\n    if multiprocessing.parent_process(): return None\n    return"
    return write_plugin(folder, activate=ACTIVATE.replace("    return", probe))


@mutant(
    check="processes.child_processes_agree",
    defect="an answer is fetched by a worker thread that the platform starts: a forked child has no such thread",
    says="child forked",
)
def answers_through_a_thread(folder: Path) -> Installed:
    text = PLATFORM + (
        "\n    def __init__(self):\n        import queue, threading\n"
        "        self._asked, self._told = queue.Queue(), queue.Queue()\n"
        "        threading.Thread(target=self._serve, daemon=True).start()\n"
        "\n    def _serve(self):\n        while True: self._told.put(self._asked.get())\n"
        "\n    def get_dispatch_key_name(self):\n        self._asked.put('native')\n"
        "        return self._told.get(timeout=5)\n"
    )
    return write_plugin(folder, platform=text)


@mutant(
    check="processes.hooks_are_in_every_process",
    defect="hooks are registered in the main process only (`if parent_process() is None`)",
    says="lacks the hook",
)
def hook_lost_in_the_child(folder: Path) -> Installed:
    hooks = (
        "import multiprocessing\nfrom sglang_platform.core import HookRegistry\n\ndef load():\n"
        "    if multiprocessing.parent_process() is None:\n"
        "        HookRegistry.register('json:dumps', lambda result, *a, **k: None)\n"
    )
    return write_with_hooks(folder, hooks)


@mutant(
    check="packaging.general_plugins_leave_the_process_alone",
    defect="the general plugin takes one thread for torch, in the process that tokenizes as well",
    says="torch's threads",
)
def general_plugin_sets_threads(folder: Path) -> Installed:
    return write_with_hooks(folder, "import torch\n\ndef load():\n    torch.set_num_threads(1)\n")


@mutant(
    check="packaging.general_plugins_leave_the_process_alone",
    defect="the general plugin seeds the random numbers of every process, so that requests sample alike",
    says="the state of the random numbers of random",
)
def general_plugin_seeds(folder: Path) -> Installed:
    return write_with_hooks(folder, "import random\n\ndef load():\n    random.seed(0)\n")


@mutant(
    check="processes.unselected_plugin_stays_out",
    defect="a .pth file imports the package in every Python process, chosen or not",
    says="is imported all the same",
)
def imported_by_a_pth_file(folder: Path) -> Installed:
    # A sitecustomize does what the .pth file in site-packages would.
    installed = write_plugin(folder, files={"sitecustomize.py": f"import {PACKAGE}\n"})
    return Installed(
        installed.name,
        {"PYTHONPATH": os.pathsep.join([str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])},
    )


@mutant(
    check="processes.neighbours_stay_out",
    defect="activate() loads all plugins of the group to see whether it is alone: one that crashes takes it along",
    says="killed by SIGKILL",
)
def loads_its_neighbours(folder: Path) -> Installed:
    probe = (
        "    from importlib.metadata import entry_points\n"
        "    for point in entry_points(group='sglang.srt.platforms'):\n"
        "        if point.name == 'neighbour': point.load()\n    return"
    )
    return write_plugin(folder, activate=ACTIVATE.replace("    return", probe))


@mutant(
    check="processes.hooks_are_in_every_process",
    defect="init_backend() registers a hook in the first process alone: the schedulers, which are spawned, go without",
    says="lacks the hook",
)
def hook_of_the_first_process(folder: Path) -> Installed:
    text = PLATFORM + (
        "\n    def init_backend(self):\n        import json, multiprocessing\n"
        "        from sglang_platform.core import HookRegistry, HookType\n"
        "        super().init_backend()\n"
        "        if multiprocessing.parent_process() is None:\n"
        "            HookRegistry.register('json:dumps', lambda call, *a, **k: call(*a, **k), HookType.AROUND)\n"
    )
    return write_plugin(folder, platform=text)
