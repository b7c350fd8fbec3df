"""Level 1 mutants: plugins that are found, asked or imported wrongly."""

from __future__ import annotations

from pathlib import Path

from mutant import Installed, mutant
from plugins import ACTIVATE, NAME, PACKAGE, PLATFORM, write_metadata, write_plugin


@mutant(
    check="packaging.entry_point_resolves",
    defect="the entry point names a function that was renamed",
    says="activate_platform",
)
def entry_point_to_nowhere(folder: Path) -> Installed:
    return write_plugin(
        folder, entry_points=f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate_platform\n"
    )


@mutant(
    check="packaging.entry_point_resolves",
    defect="the package imports its driver library at the top, so that it can be imported on the device only",
    says="libmydevice",
)
def driver_imported_at_the_top(folder: Path) -> Installed:
    return write_plugin(folder, activate="import libmydevice\n" + ACTIVATE)


@mutant(
    check="packaging.entry_point_resolves",
    defect="the entry point is in a group of an early draft, which nothing reads",
    says="no installed distribution",
)
def retired_group(folder: Path) -> Installed:
    return write_plugin(folder, entry_points=f"[sglang.platforms]\n{NAME} = {PACKAGE}:activate\n")


@mutant(
    check="packaging.one_platform_is_active",
    defect="a renamed distribution and its predecessor are both installed",
    says="mutant-platform-old",
)
def installed_twice(folder: Path) -> Installed:
    points = f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n"
    write_metadata(folder, "mutant-platform-old", points)
    return write_plugin(folder)


@mutant(
    check="packaging.metadata_is_sound",
    defect="beside the right group, hooks are registered in a group that nothing reads",
    says="sglang.plugins",
)
def hooks_in_a_retired_group(folder: Path) -> Installed:
    points = (
        f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n[sglang.plugins]\nhooks = {PACKAGE}:activate\n"
    )
    return write_plugin(folder, entry_points=points)


@mutant(
    check="packaging.contract_version_is_stated",
    defect="the plugin states a contract version that this core does not speak",
    says="v7",
)
def other_contract_version(folder: Path) -> Installed:
    return write_plugin(folder, contract=f"[sglang_platform.contract]\n{NAME} = v7\n")


@mutant(
    check="packaging.contract_version_is_stated",
    defect="the plugin is built on core and states no contract version",
    says="does not state",
)
def no_contract_version(folder: Path) -> Installed:
    return write_plugin(folder, contract="")


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="activate() imports SGLang to ask for its version: ten seconds per process, and a cycle in SGLang's own",
    says="sglang",
)
def imports_the_host(folder: Path) -> Installed:
    fake = "__version__ = '0.5.23'\n"  # the real one takes ten seconds to say the same
    text = ACTIVATE.replace("    return", "    import sglang\n    assert sglang.__version__\n    return")
    return write_plugin(folder, activate=text, files={"sglang/__init__.py": fake})


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="the probe asks torch for the device's properties, which opens the device in a process that will fork",
    says="torch.cuda",
)
def probe_opens_the_device(folder: Path) -> Installed:
    text = ACTIVATE.replace("    return", f"    import {PACKAGE}.torch_npu_like\n    return")
    # What `import torch; torch.cuda.get_device_properties(0)` leaves behind on a machine that has the device.
    module = "import torch\ntorch.cuda.is_initialized = lambda: True\n"
    return write_plugin(folder, activate=text, files={f"{PACKAGE}/torch_npu_like.py": module})


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="activate() forces a setting of the host through an environment variable",
    says="SGLANG_USE_CPU_ENGINE",
)
def sets_a_variable(folder: Path) -> Installed:
    text = "import os\n" + ACTIVATE.replace(
        "    return", "    os.environ['SGLANG_USE_CPU_ENGINE'] = '1'\n    return"
    )
    return write_plugin(folder, activate=text)


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="the module gives OpenMP one thread where the operator names no number",
    says="OMP_NUM_THREADS is '1'",
)
def names_threads_where_nobody_does(folder: Path) -> Installed:
    text = "import os\n\nos.environ.setdefault('OMP_NUM_THREADS', '1')\n" + ACTIVATE
    return write_plugin(folder, activate=text)


@mutant(
    check="packaging.asking_leaves_the_process_alone",
    defect="a thread that watches the device's temperature is started when the package is imported",
    says="watch-temperature",
)
def leaves_a_thread(folder: Path) -> Installed:
    thread = (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), name='watch-temperature', daemon=True).start()\n"
    )
    return write_plugin(folder, activate=thread + ACTIVATE)


@mutant(
    check="packaging.activate_answers_in_form",
    defect="activate() counts its calls and declines from the second on",
    says="asked again",
)
def answers_once(folder: Path) -> Installed:
    text = "asked = []\n" + ACTIVATE.replace(
        "    return", "    asked.append(1)\n    if len(asked) > 1: return None\n    return"
    )
    return write_plugin(folder, activate=text)


@mutant(
    check="packaging.activate_answers_in_form",
    defect="the probe holds a lock of a thread that a fork does not copy: the child waits for ever",
    says="forked child",
)
def hangs_after_a_fork(folder: Path) -> Installed:
    text = "import os, time\nhome = os.getpid()\n" + ACTIVATE.replace(
        "    return", "    while os.getpid() != home: time.sleep(0.1)\n    return"
    )
    return write_plugin(folder, activate=text)


@mutant(
    check="packaging.activate_answers_in_form",
    defect="activate() answers with the class instead of its place",
    says="names no class",
)
def answers_with_a_class(folder: Path) -> Installed:
    text = ACTIVATE.replace(
        f'return "{PACKAGE}.platform:Platform"',
        f"from {PACKAGE}.platform import Platform\n    return Platform.__name__",
    )
    return write_plugin(folder, activate=text)


@mutant(
    check="packaging.activate_answers_in_form",
    defect="the probe raises where the device's file is missing, instead of declining",
    says="FileNotFoundError",
)
def probe_raises(folder: Path) -> Installed:
    return write_plugin(
        folder, activate=ACTIVATE.replace("    return", "    open('/dev/mydevice0')\n    return")
    )


@mutant(
    check="packaging.missing_module_is_told",
    defect="`except ImportError: return None`: a driver package that is not installed looks like no device",
    says="mydriver",
)
def import_error_looks_like_no_device(folder: Path) -> Installed:
    probe = "    try:\n        import mydriver\n    except ImportError:\n        return None\n    return"
    return write_plugin(
        folder, activate=ACTIVATE.replace("    return", probe), files={"mydriver.py": "present = True\n"}
    )


@mutant(
    check="packaging.missing_module_is_told",
    defect="a driver package that nobody installed is looked for, and its absence taken for that of the device",
    says="mydriver_of_nobody is not installed",
)
def missing_driver_looks_like_no_device(folder: Path) -> Installed:
    probe = (
        "    from importlib.util import find_spec\n\n"
        "    if find_spec('mydriver_of_nobody') is None:\n        return None\n    return"
    )
    return write_plugin(folder, activate=ACTIVATE.replace("    return", probe))


@mutant(
    check="packaging.missing_module_is_told",
    defect="a driver package that nobody installed is taken for an absent device, for a reason that says nothing",
    says="mydriver_of_nobody is not installed",
)
def missing_driver_for_another_reason(folder: Path) -> Installed:
    probe = (
        "    from sglang_platform.core import PlatformUnavailable\n\n"
        "    try:\n        import mydriver_of_nobody\n    except Exception:\n"
        "        raise PlatformUnavailable('no device was found')\n    return"
    )
    return write_plugin(folder, activate=ACTIVATE.replace("    return", probe))


@mutant(
    check="packaging.dependencies_are_declared",
    defect="numpy is imported and not required: the plugin works where something else brought it",
    says="numpy",
)
def undeclared_dependency(folder: Path) -> Installed:
    return write_plugin(folder, platform="import numpy\n" + PLATFORM)


@mutant(
    check="packaging.one_platform_is_active",
    defect="the distribution registers its function by a second name, and both platforms are active",
    says="two platforms are active",
)
def registers_two_names(folder: Path) -> Installed:
    names = f"{NAME} = {PACKAGE}:activate\n{NAME}_2 = {PACKAGE}:activate\n"
    return write_plugin(folder, entry_points=f"[sglang.srt.platforms]\n{names}")


@mutant(
    check="packaging.distribution_brings_only_its_own",
    defect="a .pth file of the distribution sets a variable in every Python process of the environment",
    says="mutant_early.pth",
)
def runs_code_in_every_process(folder: Path) -> Installed:
    return write_plugin(
        folder, files={"mutant_early.pth": "import os; os.environ.setdefault('MUTANT', '1')\n"}
    )


@mutant(
    check="packaging.distribution_brings_only_its_own",
    defect="a module of the distribution has the name of one of Python's, and is imported in its place",
    says="colorsys, which is Python's",
)
def hides_a_module_of_pythons(folder: Path) -> Installed:
    return write_plugin(folder, files={"colorsys.py": "def rgb_to_hsv(*rgb):\n    return rgb\n"})


@mutant(
    check="packaging.distribution_brings_only_its_own",
    defect="the tests are installed beside the package, as a package of the name that all have for theirs",
    says="the module tests, a name that others have as well",
)
def brings_its_tests(folder: Path) -> Installed:
    return write_plugin(folder, files={"tests/__init__.py": ""})


@mutant(
    check="packaging.distribution_brings_only_its_own",
    defect="the distribution puts a module of its own into torch's package",
    says="the module torch, which is torch's",
)
def lies_in_the_package_of_others(folder: Path) -> Installed:
    installed = write_plugin(folder)
    record = next(folder.glob("*.dist-info")) / "RECORD"
    record.write_text(record.read_text() + "torch/mutant.py,,\n")
    return installed
