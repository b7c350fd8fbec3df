"""Level 1 mutants: what importing the platform's class does to the process, and what the answer depends on."""

from __future__ import annotations

from pathlib import Path

from mutant import Installed, mutant
from plugins import ACTIVATE, CONTRACT, NAME, PACKAGE, PLATFORM, write_plugin

_FIRST = "from sglang_platform.core import DeviceMixin"
_CLASS = "class Platform(SRTPlatform, Device):\n"


def _on_import(folder: Path, text: str) -> Installed:
    """The platform's module does this first."""
    return write_plugin(folder, platform=PLATFORM.replace(_FIRST, f"{text}\n{_FIRST}"))


def _asked(folder: Path, text: str) -> Installed:
    """The plugin does this when it is asked."""
    return write_plugin(folder, activate=ACTIVATE.replace("    return", f"{text}    return", 1))


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="the platform's module makes torch's question for Intel's devices its own",
    says="torch.xpu.is_available",
)
def answers_for_another_device(folder: Path) -> Installed:
    return _on_import(folder, "import torch\n\ntorch.xpu.is_available = lambda: True\n")


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="the platform's module counts the files that anybody opens",
    says="builtins.open",
)
def counts_open_files(folder: Path) -> Installed:
    text = "import builtins\n\n_open = builtins.open\nbuiltins.open = lambda *a, **k: _open(*a, **k)\n"
    return _on_import(folder, text)


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="the platform's module runs the vendor's tool, quick as that is",
    says="starts",
)
def runs_a_quick_tool(folder: Path) -> Installed:
    return _on_import(folder, "import subprocess\n\nsubprocess.run(['true'], check=True)\n")


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="the platform's module waits for the driver's service, and goes on after two seconds",
    says="waits",
)
def waits_for_a_service(folder: Path) -> Installed:
    return _on_import(folder, "import threading\n\nthreading.Event().wait(2)\n")


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="at exit the platform's module ends the process before the driver's library can hang, with status 0",
    says="status 0",
)
def ends_the_process_itself(folder: Path) -> Installed:
    return _on_import(folder, "import atexit\nimport os\n\natexit.register(os._exit, 0)\n")


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="the platform's module hides errors that nobody catches",
    says="does not show",
)
def hides_errors(folder: Path) -> Installed:
    return _on_import(folder, "import sys\n\nsys.excepthook = lambda *error: None\n")


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="the plugin declines in processes whose command line names another device",
    says="sys.argv",
)
def looks_at_the_command_line(folder: Path) -> Installed:
    return _asked(folder, "    import sys\n\n    if '--device=cuda' in sys.argv:\n        return None\n")


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="the platform reads its settings from a file of the folder in which it is started",
    says="'mutant.toml'",
)
def settings_of_the_working_folder(folder: Path) -> Installed:
    text = (
        f"{_CLASS}    _settings = Path('mutant.toml').read_text() if Path('mutant.toml').exists() else ''\n\n"
    )
    return write_plugin(folder, platform=PLATFORM.replace(_CLASS, text))


@mutant(
    check="packaging.one_platform_is_active",
    defect="the distribution registers a second platform, which is active on the same machine",
    says=f"{NAME}_fast",
)
def a_faster_platform_beside(folder: Path) -> Installed:
    points = f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n{NAME}_fast = {PACKAGE}.fast:activate\n"
    contract = f"{CONTRACT}{NAME}_fast = v1\n"
    files = {f"{PACKAGE}/fast.py": ACTIVATE}
    return write_plugin(folder, entry_points=points, contract=contract, files=files)


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="the platform's module starts a thread that watches the device",
    says="threads run on",
)
def watches_from_the_import(folder: Path) -> Installed:
    text = "import threading\n\nthreading.Thread(target=threading.Event().wait, args=(60,), daemon=True).start()\n"
    return _on_import(folder, text)


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="the platform's module puts a finder of its own in front of all imports",
    says="sys.meta_path",
)
def finds_all_imports(folder: Path) -> Installed:
    text = (
        "import sys\n\n\nclass Finder:\n    @staticmethod\n    def find_spec(*given):\n        return None\n\n\n"
        "sys.meta_path.insert(0, Finder)\n"
    )
    return _on_import(folder, text)


@mutant(
    check="packaging.activate_answers_in_form",
    defect="activate() sets a signal handler, which only the first thread of a process may",
    says="in a thread",
)
def works_in_the_first_thread_only(folder: Path) -> Installed:
    return _asked(
        folder, "    import signal\n\n    signal.signal(signal.SIGUSR2, signal.getsignal(signal.SIGUSR2))\n"
    )


@mutant(
    check="packaging.platform_module_leaves_the_process_alone",
    defect="the platform's module has a thread that Python waits for when a process ends",
    says="does not end",
)
def is_waited_for_at_the_end(folder: Path) -> Installed:
    text = "import threading\n\nthreading._register_atexit(threading.Event().wait, 40)\n"
    return _on_import(folder, text)
