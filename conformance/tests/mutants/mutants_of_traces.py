"""Level 1 mutants: plugins that leave something behind, take long, or run what others can write."""

from __future__ import annotations

from pathlib import Path

from mutant import Installed, mutant
from plugins import ACTIVATE, PLATFORM, REQUIRES, write_plugin


def _asked(folder: Path, lines: str, **more: str) -> Installed:
    """A plugin whose `activate()` does this first."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    return write_plugin(folder, activate=ACTIVATE.replace("    return", body + "    return"), **more)  # type: ignore[arg-type]


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="activate() asks for the spawn method, which the host then cannot choose",
    says="start method",
)
def chooses_the_start_method(folder: Path) -> Installed:
    return _asked(folder, "import multiprocessing\nmultiprocessing.set_start_method('spawn', force=True)")


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="a thread that watches the device's power is started by asking",
    says="watch-power",
)
def leaves_a_second_thread(folder: Path) -> Installed:
    return _asked(
        folder,
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), name='watch-power', daemon=True).start()",
    )


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="a helper that talks to the driver is started by asking, and runs on",
    says="sleep",
)
def leaves_a_helper(folder: Path) -> Installed:
    return _asked(folder, "import subprocess\nsubprocess.Popen(['sleep', '5'])")


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="logging.basicConfig() gives the root logger a handler before the host does",
    says="root logger",
)
def configures_logging(folder: Path) -> Installed:
    return _asked(folder, "import logging\nlogging.basicConfig(level=logging.DEBUG)")


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="the device's type is made torch's default dtype by asking",
    says="default dtype",
)
def sets_the_default_dtype(folder: Path) -> Installed:
    return _asked(folder, "import torch\ntorch.set_default_dtype(torch.bfloat16)")


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="torch.cuda.is_available() is replaced, so that code for CUDA runs on the device",
    says="torch.cuda.is_available",
)
def pretends_to_be_cuda(folder: Path) -> Installed:
    return _asked(folder, "import torch\ntorch.cuda.is_available = lambda: True")


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="the device is closed at exit, by every process that only asked",
    says="close_device",
)
def closes_at_exit(folder: Path) -> Installed:
    text = "import atexit\n\n\ndef close_device():\n    pass\n\n\n" + ACTIVATE
    text = text.replace("    return", "    atexit.register(close_device)\n    return")
    return write_plugin(folder, activate=text)


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="a banner is printed in every process",
    says="My device 1.0",
)
def prints_a_banner(folder: Path) -> Installed:
    return _asked(folder, "print('My device 1.0')")


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="the answer of the probe is kept in a file of the temporary folder, for all users",
    says="mydevice-probe",
)
def remembers_in_a_file(folder: Path) -> Installed:
    return _asked(
        folder,
        "import pathlib, tempfile\npathlib.Path(tempfile.gettempdir(), 'mydevice-probe').write_text('1')",
    )


@mutant(
    check="packaging.asking_leaves_the_process_alone[row=time]",
    defect="the probe waits for the driver, in every process",
    says="times as long",
)
def waits_for_the_driver(folder: Path) -> Installed:
    return _asked(folder, "import time\ntime.sleep(8)")


@mutant(
    check="packaging.requirements_are_met",
    defect="a version of torch is required that is not the one installed",
    says="torch<1.0",
)
def requires_an_old_torch(folder: Path) -> Installed:
    return write_plugin(folder, requires=(*REQUIRES, "torch<1.0"))


@mutant(
    check="packaging.nothing_that_others_write_is_run",
    defect="tuned launches are unpickled from the temporary folder",
    says="pickle.load()",
)
def unpickles_its_tuning(folder: Path) -> Installed:
    text = PLATFORM + (
        "\n\ndef _read(path):\n    import pickle\n\n    with open(path, 'rb') as file:\n"
        "        return pickle.load(file)\n"
        "\n\ndef tuned():\n    import os\n    import tempfile\n\n"
        "    return _read(os.path.join(tempfile.gettempdir(), 'tuning.pkl'))\n"
    )
    return write_plugin(folder, platform=text)


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="a method that tensors inherit is replaced, so that models written for CUDA stay where they are",
    says="torch.Tensor.cuda",
)
def replaces_an_inherited_method(folder: Path) -> Installed:
    return _asked(folder, "import torch\ntorch.Tensor.cuda = lambda self, *more, **named: self")


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="the module of the platform sets torch's threads, in the launcher as well",
    says="torch's threads",
)
def module_sets_threads(folder: Path) -> Installed:
    return write_plugin(folder, platform=f"import torch\n\ntorch.set_num_threads(7)\n{PLATFORM}")


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="the module of the platform sets one thread, as the operator's environment has it where the suite runs",
    says="torch's threads",
)
def module_sets_one_thread(folder: Path) -> Installed:
    return write_plugin(folder, platform=f"import torch\n\ntorch.set_num_threads(1)\n{PLATFORM}")


@mutant(
    check="packaging.platform_module_leaves_the_process_alone[row=time]",
    defect="the module of the platform tunes its kernels while it is imported",
    says="importing the platform's class takes",
)
def module_tunes_at_import(folder: Path) -> Installed:
    return write_plugin(folder, platform=f"import time\n\ntime.sleep(30)\n{PLATFORM}")


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="asking the plugin silences all warnings of the process",
    says="warnings are filtered by",
)
def silences_all_warnings(folder: Path) -> Installed:
    return _asked(folder, 'import warnings\nwarnings.simplefilter("ignore")')
