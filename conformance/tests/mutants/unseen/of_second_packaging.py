"""A second set: distributions that work where they were written."""

from __future__ import annotations

from broken import Table
from plugins import ACTIVATE, CONTRACT, NAME, PACKAGE, PLATFORM, write_plugin

packaging = Table("packaging 2", "packaging processes")

_ANSWER = '    return "mutant_platform.platform:Platform"\n'
_CLASS = "class Platform(SRTPlatform, Device):\n"


def _plugin(name: str, defect: str, levels: str = "", healthy: bool = False, **fields: object) -> None:
    packaging.written(name, defect, levels=levels, healthy=healthy)(
        lambda folder: write_plugin(folder, **fields)  # type: ignore[arg-type]
    )


_plugin("SubmoduleNotPackaged", "the platform's module imports a submodule that the distribution leaves out",
        platform=f"from mutant_platform import kernels\n{PLATFORM}")  # fmt: skip
_plugin("TuningFileByFolder", "the platform's module reads a file by a path relative to the working directory",
        platform=f"open('mutant_platform/tuning.json').close()\n{PLATFORM}", files={"mutant_platform/tuning.json": "{}"})  # fmt: skip
_plugin("PlatformImportsTheHost", "the platform's module imports SGLang's engine, which imports the platform",
        platform=f"import sglang.srt.entrypoints.engine\n{PLATFORM}", levels="packaging processes contract")  # fmt: skip
_plugin("PlatformSetsEnvironment", "the platform's module sets a variable that every child inherits",
        platform=f"import os\n\nos.environ['OMP_NUM_THREADS'] = '3'\n{PLATFORM}", levels="packaging processes contract")  # fmt: skip
_plugin("PlatformSeeds", "the platform's module seeds Python's random numbers",
        platform=f"import random\n\nrandom.seed(0)\n{PLATFORM}", levels="packaging processes contract")  # fmt: skip
_plugin("PlatformLogs", "the platform's module gives the root logger a handler",
        platform=f"import logging\n\nlogging.basicConfig(level='INFO')\n{PLATFORM}", levels="packaging processes contract")  # fmt: skip
_plugin("PlatformHooksImports", "the platform's module puts a finder in front of all imports",
        platform="import sys\n\nsys.meta_path.insert(0, type('F', (), {'find_spec': staticmethod(lambda *a: None)}))\n" + PLATFORM,
        levels="packaging processes contract")  # fmt: skip
_plugin("PlatformStartsAThread", "the platform's module starts a thread that watches the device",
        platform="import threading, time\n\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n" + PLATFORM,
        levels="packaging processes contract")  # fmt: skip
_plugin("AnswerWithASpace", "activate() answers with a space behind the colon",
        activate=ACTIVATE.replace("platform:Platform", "platform: Platform"))  # fmt: skip
_plugin("AnswerIsAPath", "activate() answers with a path object", activate=ACTIVATE.replace(
        _ANSWER, "    from pathlib import PurePath\n\n    return PurePath('mutant_platform.platform:Platform')\n"))  # fmt: skip
_plugin("AnswerByHostname", "activate() answers None on machines whose name is not the developer's",
        activate=ACTIVATE.replace(_ANSWER, "    import platform\n\n    if platform.node() != 'dev-box':\n        raise OSError('unknown machine')\n" + _ANSWER))  # fmt: skip
_plugin("NameWithADash", "the entry point's name has a space in it",
        entry_points=f"[sglang.srt.platforms]\nmutant device = {PACKAGE}:activate\n", contract=CONTRACT)  # fmt: skip
_plugin("TwoPlatforms", "one distribution registers two platforms by one function",
        entry_points=f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n{NAME}_2 = {PACKAGE}:activate\n")  # fmt: skip
_plugin("ImportNeedsATerminal", "the package asks for the width of the terminal",
        activate=f"import os; os.get_terminal_size()\n{ACTIVATE}")  # fmt: skip
_plugin("ImportNeedsAHome", "the package reads the home folder from the environment",
        activate=f"import os; os.environ['MY_DEVICE_HOME']\n{ACTIVATE}")  # fmt: skip
_plugin("ConstructorForks", "the platform's constructor starts a process that stays",
        platform=PLATFORM.replace(_CLASS, _CLASS + "    def __init__(self):\n        super().__init__()\n        import subprocess\n\n"
                                  "        subprocess.Popen(['sleep', '60'])\n\n"), levels="packaging processes contract")  # fmt: skip
_plugin("ConstructorNeedsAnArgument", "the platform's constructor needs an argument",
        platform=PLATFORM.replace(_CLASS, _CLASS + "    def __init__(self, config):\n        super().__init__()\n\n"), levels="packaging processes contract")  # fmt: skip
_plugin("CapabilitiesByProcess", "capabilities differ between the launcher and a worker",
        platform="import multiprocessing\n\nfrom sglang_platform.core import PlatformCapabilities\n" + PLATFORM.replace(
            _CLASS, _CLASS + "    capabilities = PlatformCapabilities(fp8=multiprocessing.parent_process() is None)\n\n"),
        levels="packaging processes contract")  # fmt: skip
_plugin("DeviceByProcess", "the device's name is another in a worker",
        platform=PLATFORM.replace('        return "a healthy device"\n',
                                  "        import multiprocessing\n\n        return f'device of {multiprocessing.current_process().name}'\n"),
        levels="packaging processes contract")  # fmt: skip
_plugin("UuidOfTheProcess", "the uuid is another in a worker",
        platform=PLATFORM.replace('        return f"mutant-{uuid.getnode():x}"\n', "        import os\n\n        return f'mutant-{os.getppid()}'\n"),
        levels="packaging processes contract")  # fmt: skip
_plugin("HealthyThread", "activate() asks its driver in a thread with a time limit, and waits for it", healthy=True,
        activate=ACTIVATE.replace(_ANSWER, "    import threading\n\n    asked = []\n    one = threading.Thread(target=asked.append, args=(1,))\n"
                                  "    one.start()\n    one.join(5)\n" + _ANSWER))  # fmt: skip
