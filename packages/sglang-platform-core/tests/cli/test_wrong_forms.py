"""Every wrong form of entry point, answer and class: `info` and `doctor` refuse what SGLang would, with the fix."""

from __future__ import annotations

import textwrap

import pytest

TOP = "from sglang_platform.core import *\nfrom sglang_platform.core import SRTPlatform, platform_plugin\n"
CLASS = f"""{TOP}from sglang_platform.core import PlatformEnum
class Platform(SRTPlatform):
    _enum = PlatformEnum.OOT
    device_name = "dev"
    device_type = "cpu"
    def initialize_device(self, rank, local_rank): ...
    def get_device(self, device_id=0): ...
    def get_device_total_memory(self, device_id=0): ...
    def get_current_memory_usage(self, device=None): ...
"""
PLUGIN = f"{TOP}@platform_plugin\ndef activate():\n    return 'dev_cls:Platform'\n"

ENTRY_POINTS = {
    "dev_plugin": "names the module <module 'dev_plugin'",
    "dev_plugin:": "correct the entry point dev = dev_plugin: of dev-dist",
    "dev_plugin.activate": "No module named 'dev_plugin.activate'",
    "dev_plugin:missing": "module 'dev_plugin' has no attribute 'missing'",
    "gone_plugin:activate": "No module named 'gone_plugin'",
    "dev_cls:Platform": "names the type <class 'dev_cls.Platform'>, not a function",
    "dev_plugin:VALUE": "names the int 5, not a function",
    "dev_plugin:INSTANCE": "not a function",
    "dev-plugin:activate": "correct the entry point dev = dev-plugin:activate of dev-dist",
}
ANSWERS = {
    "'dev_cls:Gone'": "has no attribute 'Gone'",
    "'gone_cls:Platform'": "No module named 'gone_cls'",
    "'dev_cls Platform'": "must return",
    "'dev_cls: Platform'": "must return",
    "'dev_cls:Platform\\n'": "must return",
    "''": "must return",
    "b'dev_cls:Platform'": "must return",
    "True": "must return",
    "0": "must return",
    "('dev_cls', 'Platform')": "must return",
    "__import__('pathlib').Path('dev_cls.py')": "must return",
    "lambda: 'dev_cls:Platform'": "must return",
    "__import__('dev_cls').Platform": 'return the text "pkg.mod:Class", or None',
    "__import__('dev_cls').Platform()": "must return",
    "(yield 'dev_cls:Platform')": "must return",
    "'dev_cls:function'": "is not a platform class",
    "'dev_cls'": "must return",
}
CLASSES = {
    "no subclass": ("class Platform: ...", "is not a platform class"),
    "a device alone": (f"{TOP}class Platform(DeviceMixin): ...", "is not a platform class"),
    "the other runtime's": (f"{TOP}class Platform(MMPlatform): ...", "is not a platform class"),
    "a function": ("def Platform(): ...", "is not a platform class"),
    "an instance": (f"{CLASS}\nPlatform = Platform()", "is not a platform class"),
    "an abstract method": (
        f"import abc\n{TOP}class Platform(SRTPlatform, metaclass=abc.ABCMeta):\n"
        "    @abc.abstractmethod\n    def init_backend(self): ...",
        "init_backend",
    ),
    "a metaclass that raises": (
        f"{TOP}class Meta(type):\n    def __call__(cls): raise OSError('no licence')\n"
        "class Platform(SRTPlatform, metaclass=Meta):\n    def __init__(self): raise OSError('no licence')",
        "no licence",
    ),
    "conflicting metaclasses": (
        f"{TOP}class A(type): ...\nclass B(type): ...\nclass X(metaclass=A): ...\n"
        "class Platform(SRTPlatform, X, metaclass=B): ...",
        "metaclass conflict",
    ),
    "a constructor with arguments": (f"{CLASS}    def __init__(self, index): ...", "takes no arguments"),
    "a constructor that raises": (f"{CLASS}    def __init__(self): raise OSError('busy')", "OSError: busy"),
    "a constructor that exits": (f"{CLASS}    def __init__(self): raise SystemExit(4)", "SystemExit: 4"),
    "slots": (f"{CLASS}    __slots__ = ('_x',)", "no __slots__"),
    "a name outside the contract": (f"{CLASS}    def get_devise(self): ...", "get_devise"),
    "a property that raises": (
        f"{TOP}class Platform(SRTPlatform):\n    device_name = property(lambda self: 1 / 0)",
        "does not say which device it is",
    ),
    "the decorator on the class": (
        f"{TOP}@platform_plugin\nclass Platform(SRTPlatform): ...",
        "not a function",
    ),
}


def _install(
    command, entry_point: str = "dev_plugin:activate", plugin: str = PLUGIN, cls: str = CLASS
) -> None:
    command.install(
        "dev",
        {"sglang.srt.platforms": {"dev": entry_point}, "sglang_platform.contract": {"dev": "v1"}},
        dev_plugin=plugin,
        dev_cls=cls,
    )


def _refused(command, says: str) -> None:
    for arguments in ("info", "doctor"):
        run = command(arguments)
        said = run.stdout + run.stderr
        assert run.returncode == 1, said
        assert says in said
        assert "dev-dist" in said
        assert "fix:" in said
        assert "Traceback" not in said


@pytest.mark.sample(12)
@pytest.mark.parametrize("value", ENTRY_POINTS)
def test_a_wrong_entry_point(command, value: str) -> None:
    _install(command, value, f"{PLUGIN}VALUE = 5\nINSTANCE = object()\n")
    _refused(command, ENTRY_POINTS[value])


@pytest.mark.sample(20)
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_wrong_answer(command, answer: str) -> None:
    _install(
        command,
        plugin=f"{TOP}@platform_plugin\ndef activate():\n    return {answer}\n",
        cls=f"{CLASS}\ndef function(): ...\n",
    )
    _refused(command, ANSWERS[answer])


def test_an_async_function(command) -> None:
    _install(command, plugin=PLUGIN.replace("def activate", "async def activate"))
    _refused(command, "answered with the coroutine")


@pytest.mark.sample(16)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_wrong_class(command, kind: str) -> None:
    source, says = CLASSES[kind]
    _install(command, cls=source)
    _refused(command, says)


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    "plugin",
    [
        "def activate():\n    return 'dev_cls:Platform'\n",
        "def activate():\n    return 'dev_cls.Platform'\n",
        "import dev_cls\nactivate = lambda: 'dev_cls:Platform'\n",
        "from dev_cls import Platform\ndef activate():\n    return 'dev_plugin:Platform'\n",
        "class Probe:\n    def __call__(self):\n        return 'dev_cls:Platform'\nactivate = Probe()\n",
        "import functools\n@functools.lru_cache\ndef activate():\n    return 'dev_cls:Platform'\n",
        "from sglang_platform.core import mm_platform_plugin\n@mm_platform_plugin\ndef activate():\n"
        "    return 'dev_cls:Platform'\n",
    ],
)
def test_a_function_that_is_not_decorated(command, plugin: str) -> None:
    _install(command, plugin=plugin)
    _refused(command, "is not decorated with @platform_plugin")


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "plugin",
    [
        PLUGIN,
        PLUGIN.replace("@platform_plugin", "@platform_plugin()"),
        PLUGIN.replace("@platform_plugin", "import functools\n@functools.lru_cache\n@platform_plugin"),
        f"{TOP}class Entry:\n    @staticmethod\n    @platform_plugin\n"
        "    def activate():\n        return 'dev_cls:Platform'\n"
        "activate = Entry.activate\n",
        f"{TOP}@platform_plugin\ndef activate():\n    class Text(str): ...\n    return Text('dev_cls:Platform')\n",
    ],
)
def test_right_forms(command, plugin: str) -> None:
    _install(command, plugin=textwrap.dedent(plugin))
    for arguments in ("info", "doctor"):
        run = command(arguments)
        assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "group",
    ["sglang.platform", "sglang.platforms", "sglang.srt.platform", "sglang_platforms", "sglang.srt.plaforms",
     "sglang.platform_plugins", "sglang.srt.platform_plugins", "sglang-srt-platforms"],
)  # fmt: skip
def test_a_wrong_group(command, group: str) -> None:
    command.install("dev", {group: {"dev": "dev_plugin:activate"}}, dev_plugin=PLUGIN, dev_cls=CLASS)
    run = command("info", SGLANG_PLATFORM="dev")
    assert run.returncode == 1
    assert f"dev-dist has it in the group {group!r}, which nobody reads" in run.stderr
    run = command("doctor")
    assert run.returncode == 1, run.stdout
    assert "move it to 'sglang.srt.platforms'" in run.stdout
    assert "not looked at: metadata" in command("info").stdout
