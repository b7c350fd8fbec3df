"""Plugins whose import or activate() leaves something behind, whose metadata is wrong, or that answer otherwise elsewhere."""

from __future__ import annotations

from pathlib import Path

from broken import Table
from plugins import ACTIVATE, CONTRACT, NAME, PACKAGE, PLATFORM, REQUIRES, write_metadata, write_plugin

packaging = Table("packaging", "packaging processes")

_ANSWER = '    return "mutant_platform.platform:Platform"\n'
_TORCH = "import torch; "

# What it leaves behind: name, what, code that needs nothing. Each is left by activate(), and every second by import too.

_LEFT = (
    ("DefaultDtype", "torch's default dtype", _TORCH + "torch.set_default_dtype(torch.bfloat16)"),
    ("TorchThreads", "torch's number of threads", _TORCH + "torch.set_num_threads(torch.get_num_threads() + 1)"),
    ("DefaultDevice", "torch's default device", _TORCH + "torch.set_default_device('meta')"),
    ("TorchSeed", "torch's seed", _TORCH + "torch.manual_seed(0)"),
    ("PatchedTorch", "torch.cuda.is_available replaced", _TORCH + "torch.cuda.is_available = lambda: True"),
    ("PatchedTensor", "a method of torch.Tensor replaced", _TORCH + "torch.Tensor.cuda = lambda self, *a, **k: self"),
    ("Precision", "torch's precision of matrix products", _TORCH + "torch.set_float32_matmul_precision('medium')"),
    ("Deterministic", "torch's deterministic algorithms on", _TORCH + "torch.use_deterministic_algorithms(True)"),
    ("Gradients", "gradients off", _TORCH + "torch.set_grad_enabled(False)"),
    ("TorchLibrary", "an operator of torch's replaced for the CPU", _TORCH + "globals().setdefault('LIB', "
     "torch.library.Library('aten', 'IMPL')).impl('silu', lambda x: x, 'CPU')"),
    ("Signal", "a handler of SIGTERM", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
    ("SigChild", "SIGCHLD ignored, so that no child's status is known", "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"),
    ("StartMethod", "multiprocessing's start method", "import multiprocessing as m; m.set_start_method('spawn', force=True)"),
    ("RootHandler", "a handler of the root logger", "import logging; logging.basicConfig(level='DEBUG')"),
    ("OtherLogger", "SGLang's logger silenced", "import logging; logging.getLogger('sglang').setLevel('CRITICAL')"),
    ("LoggingDisabled", "logging disabled", "import logging; logging.disable(logging.WARNING)"),
    ("Warnings", "all warnings silenced", "import warnings; warnings.simplefilter('ignore')"),
    ("Print", "a line on standard output", "print('my_device 1.0')"),
    ("Child", "a child process", "import subprocess; subprocess.Popen(['sleep', '30'])"),
    ("Thread", "a thread", "import threading, time; threading.Thread(target=time.sleep, args=(30,), daemon=True).start()"),
    ("File", "a file in the working directory", "open('my_device.lock', 'w').close()"),
    ("Handle", "an open file", "globals().setdefault('KEPT', []).append(open('/dev/zero'))"),
    ("Socket", "a listening socket", "import socket; globals()['SOCK'] = socket.create_server(('127.0.0.1', 0))"),
    ("SocketTimeout", "the default timeout of sockets", "import socket; socket.setdefaulttimeout(1.0)"),
    ("Collector", "the garbage collector off", "import gc; gc.disable()"),
    ("CollectorThreshold", "the garbage collector's thresholds", "import gc; gc.set_threshold(100000, 50, 50)"),
    ("Environment", "CUDA_VISIBLE_DEVICES", "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''"),
    ("OmpThreads", "OMP_NUM_THREADS", "import os; os.environ['OMP_NUM_THREADS'] = '64'"),
    ("EnvironmentRemoved", "HOME removed from the environment", "import os; os.environ.pop('HOME', None)"),
    ("SysPath", "a folder at the front of sys.path", "import sys; sys.path.insert(0, '/opt/vendor/python')"),
    ("RandomSeed", "Python's random seed", "import random; random.seed(0)"),
    ("NumpySeed", "numpy's random seed", "import numpy; numpy.random.seed(0)"),
    ("ForkHook", "a function that runs at every fork", "import os; os.register_at_fork(after_in_child=lambda: None)"),
    ("ExceptHook", "sys.excepthook", "import sys; sys.excepthook = lambda *a: None"),
    ("ThreadHook", "threading.excepthook", "import threading; threading.excepthook = lambda *a: None"),
    ("Locale", "the locale", "import locale; locale.setlocale(locale.LC_ALL, 'C.UTF-8')"),
    ("Umask", "the umask", "import os; os.umask(0o077)"),
    ("Folder", "the working directory", "import os; os.chdir('/')"),
    ("Recursion", "the recursion limit", "import sys; sys.setrecursionlimit(100000)"),
    ("FakeModule", "a false module in sys.modules", "import sys, types; sys.modules['flashinfer'] = types.ModuleType('flashinfer')"),
    ("MetaPath", "an import hook", "import sys; sys.meta_path.insert(0, type('H', (), {'find_spec': staticmethod(lambda *a: None)}))"),
    ("PathHook", "a hook of sys.path_hooks", "import sys; sys.path_hooks.insert(0, lambda p: (_ for _ in ()).throw(ImportError()))"),
    ("Builtin", "a builtin replaced", "import builtins; builtins.breakpoint = lambda *a, **k: None"),
    ("Atexit", "a function that runs at exit, and ends the process with 0", "import atexit, os; atexit.register(os._exit, 0)"),
    ("Limits", "a resource limit", "import resource as r; r.setrlimit(r.RLIMIT_CORE, (0, 0))"),
    ("Profile", "a profile function", "import sys; sys.setprofile(lambda *a: None)"),
    ("SwitchInterval", "the switch interval of threads", "import sys; sys.setswitchinterval(0.5)"),
    ("TemporaryFolder", "the folder of temporary files", "import tempfile; tempfile.tempdir = '/'"),
    ("Priority", "the priority of the process", "import os; os.nice(1)"),
    ("Affinity", "the processors that it may run on", "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"),
    ("Argv", "the command line", "import sys; sys.argv.append('--device=mutant')"),
    ("Pickle", "how a class is pickled", "import copyreg, fractions; copyreg.pickle(fractions.Fraction, lambda f: (float, (0,)))"),
    ("Json", "a function of the standard library replaced", "import json; json.loads = (lambda f: lambda *a, **k: f(*a, **k))(json.loads)"),
    ("Subprocess", "subprocess.Popen replaced", "import subprocess; subprocess.Popen = type('P', (subprocess.Popen,), {})"),
    ("Stdout", "standard output replaced", "import sys, io; sys.stdout = io.TextIOWrapper(sys.stdout.buffer, write_through=True) if hasattr(sys.stdout, 'buffer') else sys.stdout"),
    ("Sglang", "sglang imported", "import sglang"),
    ("Asyncio", "the event loop policy", "import asyncio; asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())"),
    ("Alarm", "an alarm that kills the process in a minute", "import signal; signal.alarm(600)"),
    ("Decimal", "the context of decimals", "import decimal; decimal.getcontext().prec = 5"),
)  # fmt: skip


def _leaves(name: str, what: str, code: str) -> None:
    activate = ACTIVATE.replace(_ANSWER, f"    {code}\n{_ANSWER}")
    packaging.written(f"ActivateLeaves{name}", f"activate() leaves {what} behind")(
        lambda folder: write_plugin(folder, activate=activate, requires=(*REQUIRES, "numpy"))
    )


def _imports(name: str, what: str, code: str) -> None:
    packaging.written(f"ImportLeaves{name}", f"importing the package leaves {what} behind")(
        lambda folder: write_plugin(folder, activate=f"{code}\n{ACTIVATE}", requires=(*REQUIRES, "numpy"))
    )


for _name, _what, _code in _LEFT:
    _leaves(_name, _what, _code)
for _name, _what, _code in _LEFT[::4]:
    _imports(_name, _what, _code)


def _plugin(name: str, defect: str, levels: str = "", healthy: bool = False, **fields: object) -> None:
    packaging.written(name, defect, levels=levels, healthy=healthy)(
        lambda folder: write_plugin(folder, **fields)  # type: ignore[arg-type]
    )


def _activate(name: str, defect: str, body: str, **more: object) -> None:
    _plugin(name, defect, activate=ACTIVATE.replace(_ANSWER, body), **more)  # type: ignore[arg-type]


# activate()

_activate("ActivateSlow", "activate() takes 6 seconds", f"    import time; time.sleep(6)\n{_ANSWER}")
_plugin(
    "ImportSlow", "importing the package takes 6 seconds", activate=f"import time; time.sleep(6)\n{ACTIVATE}"
)
_plugin(
    "PlatformSlow",
    "importing the platform's module takes 20 seconds",
    platform=f"import time; time.sleep(20)\n{PLATFORM}",
)
_activate(
    "ActivateRaises", "activate() raises where the device is absent", "    raise RuntimeError('no device')\n"
)
_activate(
    "ActivateNamesNobody",
    "activate() names a class that does not exist",
    '    return "mutant_platform.platform:Plattform"\n',
)
_activate("ActivateAnswersClass", "activate() answers with the class, which it imports",
          "    from mutant_platform.platform import Platform\n\n    return Platform\n")  # fmt: skip
_activate("ActivateHidesImportError", "an import that fails in activate() is taken for an absent device",
          "    try:\n        import mutant_platform_driver_that_is_not_there\n    except ImportError:\n        return None\n" + _ANSWER)  # fmt: skip
_activate(
    "ActivateExits", "activate() ends the process where a library is missing", "    raise SystemExit(1)\n"
)
_activate("ActivateOnce", "activate() answers None the second time",
          "    import sys\n    if getattr(sys, '_mutant', False):\n        return None\n    sys._mutant = True\n" + _ANSWER)  # fmt: skip
_activate("ActivateInParentOnly", "activate() answers None in a process that multiprocessing started",
          "    import multiprocessing\n    if multiprocessing.parent_process():\n        return None\n" + _ANSWER)  # fmt: skip
_activate("ActivateByEnvironment", "activate() marks the environment, so that a child's answers None",
          "    import os\n    if os.environ.get('MUTANT_ACTIVE', str(os.getpid())) != str(os.getpid()):\n        return None\n"
          "    os.environ['MUTANT_ACTIVE'] = str(os.getpid())\n" + _ANSWER)  # fmt: skip
_activate("ActivateInItsFolder", "activate() reads a file by a path relative to the working directory",
          "    open('mutant_platform/__init__.py').close()\n" + _ANSWER)  # fmt: skip
_activate("ActivateUnpickles", "activate() unpickles a cache that others can write",
          "    import os, pickle, tempfile\n    path = os.path.join(tempfile.gettempdir(), 'my_device_cache.pkl')\n"
          "    if os.path.exists(path):\n        pickle.load(open(path, 'rb'))\n" + _ANSWER)  # fmt: skip
_activate("ActivateEvaluates", "activate() evaluates a variable of the environment",
          "    import os\n    eval(os.environ.get('MY_DEVICE_OPTIONS', '{}'))\n" + _ANSWER)  # fmt: skip
_activate("ActivateInMainThread", "activate() works in the main thread only",
          "    import signal\n    signal.signal(signal.SIGUSR2, signal.getsignal(signal.SIGUSR2) or signal.SIG_DFL)\n" + _ANSWER)  # fmt: skip
_plugin("ImportNeedsArgv", "the package reads a command line that is not there when it is embedded",
        activate=f"import sys; sys.argv[1]\n{ACTIVATE}")  # fmt: skip
_plugin(
    "PlatformPrints",
    "the platform's module prints to standard output",
    platform=f"print('loaded')\n{PLATFORM}",
)
_plugin("PlatformThreads", "the platform's module sets torch's threads", platform=f"import torch; torch.set_num_threads(7)\n{PLATFORM}",
        levels="packaging contract processes")  # fmt: skip
_plugin("PlatformNeedsTorchvision", "the platform's module imports what its distribution does not require",
        platform=f"import yaml\n{PLATFORM}")  # fmt: skip
_plugin(
    "PackageNeedsUnstated",
    "the package imports what its distribution does not require",
    activate=f"import numpy\n{ACTIVATE}",
)

# Metadata

_plugin(
    "RequirementAbsent", "a requirement is not installed", requires=(*REQUIRES, "no-such-distribution-at-all")
)
_plugin(
    "RequirementNewer", "a requirement is installed in an older version", requires=(*REQUIRES, "torch>=99")
)
_plugin(
    "RequirementOlder",
    "a requirement is installed in a newer version than allowed",
    requires=(*REQUIRES, "numpy<1.0"),
)
_plugin("RequirementMalformed", "a requirement cannot be read", requires=(*REQUIRES, "torch=>2.0"))
_plugin("RequirementHere", "a requirement by its marker applies here, and is absent",
        requires=(*REQUIRES, "no-such-distribution-at-all ; python_version >= '3.8'"))  # fmt: skip
_plugin("CoreNotRequired", "core is not required, and imported", requires=("torch",))
_plugin("TorchNotRequired", "torch is not required, and imported", requires=("sglang-platform-core",))
_plugin("ContractAbsent", "no version of the contract is stated", contract="")
_plugin(
    "ContractNewer",
    "a version of the contract that does not exist yet",
    contract=CONTRACT.replace("v1", "v9"),
)
_plugin(
    "ContractOfOther",
    "the version of the contract is stated for another name",
    contract=CONTRACT.replace(NAME, "my_device"),
)
_plugin(
    "ContractMalformed", "the version of the contract is no number", contract=CONTRACT.replace("v1", "latest")
)
_plugin("EntryOfNobody", "the entry point names a function that does not exist",
        entry_points=f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activat\n")  # fmt: skip
_plugin("EntryOfNoModule", "the entry point names a module that does not exist",
        entry_points=f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}s:activate\n")  # fmt: skip
_plugin("EntryNoFunction", "the entry point names no function",
        entry_points=f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}.platform:Device\n")  # fmt: skip
_plugin("PluginGroupMissing", "a general plugin's entry point names nothing",
        entry_points=f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n[sglang.srt.plugins]\nhooks = {PACKAGE}:hooks\n")  # fmt: skip


@packaging.written("TwoDistributions", "a second distribution registers the same name")
def _two(folder: Path) -> object:
    installed = write_plugin(folder)
    write_metadata(
        folder, "other-platform", f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n{CONTRACT}", REQUIRES
    )
    return installed


@packaging.written("PythonTooOld", "the distribution does not allow this Python")
def _python(folder: Path) -> object:
    installed = write_plugin(folder)
    path = folder / "mutant_platform-1.0.dist-info" / "METADATA"
    path.write_text(path.read_text() + "Requires-Python: >=4\n")
    return installed


# Healthy

_plugin("HealthyPlugin", "a plugin of 30 lines", healthy=True, levels="packaging processes contract")
_plugin("HealthyExtras", "an extra that is not installed, a marker that does not apply", healthy=True,
        requires=(*REQUIRES, "no-such-thing ; extra == 'gpu'", "no-such-thing ; sys_platform == 'win32'"))  # fmt: skip
_plugin("HealthyLogger", "a logger of its own with a handler of its own, a lazy import inside activate()", healthy=True,
        activate=ACTIVATE.replace(_ANSWER, "    import json\n    import logging\n\n    logging.getLogger('mutant_platform').debug("
                                  "json.dumps({}))\n" + _ANSWER))  # fmt: skip
_activate("HealthyAbsent", "the device is absent: activate() answers None and says why in its log",
          "    import logging\n    import os\n\n    if not os.path.exists('/dev/mutant_device'):\n"
          "        logging.getLogger('mutant_platform').info('no driver')\n        return None\n" + _ANSWER, healthy=True)  # fmt: skip
