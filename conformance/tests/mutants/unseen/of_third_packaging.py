"""Packages, third set: what import and the question leave behind, and what a child, a fork or another folder change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from plugins import ACTIVATE, CONTRACT, NAME, PACKAGE, PLATFORM, write_plugin

packages = Table("packaging 3", "packaging processes")

IMPORT = "from sglang_platform.core import platform_plugin\n"
BODY = '    return "mutant_platform.platform:Platform"\n'


def on_import(text: str) -> str:
    return ACTIVATE.replace(IMPORT, f"{IMPORT}{text}\n")


def asked(text: str) -> str:
    """Lines that run when the plugin is asked."""
    return ACTIVATE.replace(BODY, f"{text}{BODY}")


@packages.written(
    "ImportReadsTheDevices", "the import takes the visible devices from the environment, and empties it"
)
def _(folder: Path) -> Any:
    return write_plugin(
        folder,
        activate=on_import(
            "import os\n\nDEVICES = os.environ.pop('MUTANT_VISIBLE', None)\nos.environ['MUTANT_SEEN'] = '1'"
        ),
    )


@packages.written(
    "ImportHoldsALockOverFork",
    "a thread that the import starts holds a lock that the question in a fork needs",
)
def _(folder: Path) -> Any:
    text = (
        "import threading\nimport time\n\nLOCK = threading.Lock()\n\n\n"
        "def _hold():\n    with LOCK:\n        time.sleep(3600)\n\n\n"
        "threading.Thread(target=_hold, daemon=True).start()\ntime.sleep(0.05)"
    )
    return write_plugin(
        folder, activate=on_import(text).replace(BODY, "    LOCK.acquire(timeout=30)\n" + BODY)
    )


@packages.written("ImportFiltersWarnings", "the import hides all warnings of the process")
def _(folder: Path) -> Any:
    return write_plugin(folder, activate=on_import("import warnings\n\nwarnings.simplefilter('ignore')"))


@packages.written(
    "ImportSwallowsErrorsOfTorch",
    "the platform's module puts its own function in the place of torch.cuda.is_available",
)
def _(folder: Path) -> Any:
    platform = PLATFORM.replace(
        "from sglang_platform.core import DeviceMixin",
        "import torch\n\ntorch.cuda.is_available = lambda: True\n\nfrom sglang_platform.core import DeviceMixin",
    )
    return write_plugin(folder, platform=platform)


@packages.written("PlatformTakesDefaultDtype", "the platform's module makes bfloat16 the type of new tensors")
def _(folder: Path) -> Any:
    platform = PLATFORM.replace(
        "from sglang_platform.core import DeviceMixin",
        "import torch\n\ntorch.set_default_dtype(torch.bfloat16)\n\nfrom sglang_platform.core import DeviceMixin",
    )
    return write_plugin(folder, platform=platform)


@packages.written("PlatformStartsAPool", "the platform's module starts a pool of processes")
def _(folder: Path) -> Any:
    platform = PLATFORM.replace(
        "from sglang_platform.core import DeviceMixin",
        "import multiprocessing\n\nPOOL = multiprocessing.get_context('fork').Pool(1)\n\n"
        "from sglang_platform.core import DeviceMixin",
    )
    return write_plugin(folder, platform=platform)


@packages.written("PlatformKillsOnExit", "the platform's module ends the process hard when it exits")
def _(folder: Path) -> Any:
    platform = PLATFORM.replace(
        "from sglang_platform.core import DeviceMixin",
        "import atexit\nimport os\n\natexit.register(os._exit, 0)\n\nfrom sglang_platform.core import DeviceMixin",
    )
    return write_plugin(folder, platform=platform)


@packages.written(
    "PlatformAsksAProgram", "the platform's module asks a program for the device, which takes four seconds"
)
def _(folder: Path) -> Any:
    platform = PLATFORM.replace(
        "from sglang_platform.core import DeviceMixin",
        "import subprocess\n\nsubprocess.run(['sleep', '4'], check=True)\n\nfrom sglang_platform.core import DeviceMixin",
    )
    return write_plugin(folder, platform=platform)


@packages.written(
    "PlatformOfTheFirstProcess",
    "a file says who was first: the plugin says yes to one process of a launch only",
)
def _(folder: Path) -> Any:
    text = (
        "    import os\n    import pathlib\n    import tempfile\n\n"
        "    lock = pathlib.Path(tempfile.gettempdir()) / f'mutant-{os.path.dirname(__file__).__hash__() % 1}-{os.getppid()}.lock'\n"
        "    try:\n        owner = int(lock.read_text())\n    except (OSError, ValueError):\n"
        "        lock.write_text(str(os.getpid()))\n        owner = os.getpid()\n"
        "    if owner != os.getpid():\n        return None\n"
    )
    return write_plugin(folder, activate=asked(text))


@packages.written(
    "ActiveInTheMainProcess", "the plugin says no in every process but the first: it looks at its parent"
)
def _(folder: Path) -> Any:
    text = "    import multiprocessing\n\n    if multiprocessing.parent_process() is not None:\n        return None\n"
    return write_plugin(folder, activate=asked(text))


@packages.written("ActiveByArguments", "the plugin says yes where the command line names its device")
def _(folder: Path) -> Any:
    text = "    import sys\n\n    if any('--device=other' in word for word in sys.argv) or '-c' in sys.argv[:1]:\n        return None\n"
    return write_plugin(folder, activate=asked(text))


@packages.written(
    "OtherClassInAChild", "a child of spawn is given another class, one without the attention backend"
)
def _(folder: Path) -> Any:
    text = (
        "    import multiprocessing\n\n    if multiprocessing.parent_process() is not None:\n"
        '        return "mutant_platform.platform:Other"\n'
    )
    other = '\n\nclass Other(SRTPlatform, Device):\n    def get_default_attention_backend(self):\n        return "triton"\n'
    return write_plugin(folder, activate=asked(text), platform=PLATFORM + other)


@packages.written(
    "NeedsItsFolder", "the platform reads a file beside the program, by a name without a folder"
)
def _(folder: Path) -> Any:
    platform = PLATFORM.replace(
        "class Platform(SRTPlatform, Device):\n",
        "class Platform(SRTPlatform, Device):\n    supported_page_sizes = (1, 16) if Path('devices.json').exists() else (1,)\n",
    )
    return write_plugin(folder, platform=platform)


@packages.written(
    "NeedsMoreThanItSays", "the platform imports numpy and packaging, of which the distribution says nothing"
)
def _(folder: Path) -> Any:
    platform = PLATFORM.replace(
        "class Platform(SRTPlatform, Device):\n",
        "class Platform(SRTPlatform, Device):\n    def init_backend(self):\n        import numpy\n        import psutil\n\n"
        "        assert numpy and psutil\n\n",
    )
    return write_plugin(folder, platform=platform)


@packages.written("RefusesThisTorch", "the distribution requires a torch that is not installed")
def _(folder: Path) -> Any:
    return write_plugin(folder, requires=("sglang-platform-core", "torch<2.6"))


@packages.written(
    "ForAnotherPython",
    "the distribution requires a package by a marker that holds here, and is not installed",
)
def _(folder: Path) -> Any:
    return write_plugin(
        folder, requires=("sglang-platform-core", "torch", 'mutant-runtime>=2; platform_system == "Linux"')
    )


@packages.written("TwoAnswers", "two entry points of the distribution are the same plugin under two names")
def _(folder: Path) -> Any:
    points = f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n{NAME}_fast = {PACKAGE}:activate\n"
    return write_plugin(folder, entry_points=points, contract=CONTRACT + f"{NAME}_fast = v1\n")


@packages.written("UnpicklesItsCache", "the platform loads a pickle from the folder of temporary files")
def _(folder: Path) -> Any:
    platform = PLATFORM.replace(
        "class Platform(SRTPlatform, Device):\n",
        "class Platform(SRTPlatform, Device):\n    def init_backend(self):\n        import pickle\n        import tempfile\n\n"
        "        cache = Path(tempfile.gettempdir()) / 'mutant-tuning.pkl'\n"
        "        if cache.exists():\n            self._tuning = pickle.loads(cache.read_bytes())\n\n",
    )
    return write_plugin(folder, platform=platform)


@packages.written("LogsThroughTheRoot", "the import sets up the root logger, at debug level")
def _(folder: Path) -> Any:
    return write_plugin(
        folder, activate=on_import("import logging\n\nlogging.basicConfig(level=logging.DEBUG)")
    )


@packages.written("RecursesDeep", "the platform's module raises the limit of recursion to a million")
def _(folder: Path) -> Any:
    platform = PLATFORM.replace(
        "from sglang_platform.core import DeviceMixin",
        "import sys\n\nsys.setrecursionlimit(1_000_000)\n\nfrom sglang_platform.core import DeviceMixin",
    )
    return write_plugin(folder, platform=platform)
