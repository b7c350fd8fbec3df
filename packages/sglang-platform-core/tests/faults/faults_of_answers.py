"""Faults of what `activate()` is, does and answers, and of the platform's creation."""

from __future__ import annotations

from typing import Any

from fault_definition import Fault, dev_fault, platform

__all__ = ["FAULTS"]

INIT = "from framework import SRTPlatform\nclass Platform(SRTPlatform):\n    device_name = 'dev'\n"


def act(name: str, title: str, ends: str, said: str, body: str, head: str = "") -> Fault:
    """The body of `activate()`, and what stands above it."""
    return dev_fault(name, title, ends, said, distributions=(platform("dev", body, head=head),))


def chosen_fault(name: str, title: str, ends: str, said: str, **rest: Any) -> Fault:
    return dev_fault(name, title, ends, said, **rest)


def cls(name: str, title: str, ends: str, said: str, text: str) -> Fault:
    """The module of the platform's class."""
    return dev_fault(name, title, ends, said, distributions=(platform("dev", cls=text),))


FAULTS = [
    act(
        "answers-empty",
        "`activate()` returns an empty text",
        "PluginFailed",
        "platform plugin 'dev' answered with the str ''",
        "return ''",
    ),
    act(
        "answers-blank",
        "`activate()` returns blanks",
        "PluginFailed",
        "platform plugin 'dev' answered with the str '  '",
        "return '  '",
    ),
    act(
        "answers-padded",
        "`activate()` returns its class's name with blanks around",
        "PluginFailed",
        "platform plugin 'dev' answered with the str ' dev_cls:Platform '",
        "return ' dev_cls:Platform '",
    ),
    act(
        "answers-bytes",
        "`activate()` returns bytes",
        "PluginFailed",
        "platform plugin 'dev' answered with the bytes b'dev_cls:Platform'",
        "return b'dev_cls:Platform'",
    ),
    act(
        "answers-tuple",
        "`activate()` returns a tuple",
        "PluginFailed",
        "platform plugin 'dev' answered with the tuple ('dev_cls', 'Platform')",
        "return ('dev_cls', 'Platform')",
    ),
    act(
        "answers-path",
        "`activate()` returns the path of its class's file",
        "PluginFailed",
        "ModuleNotFoundError: No module named 'dev_cls.py'; 'dev_cls' is not a package",
        "return 'dev_cls.py:Platform'",
    ),
    act(
        "answers-slash",
        "`activate()` returns a name with slashes",
        "PluginFailed",
        "platform plugin 'dev' answered with the str 'dev_cls/Platform'",
        "return 'dev_cls/Platform'",
    ),
    act(
        "answers-colons",
        "`activate()` returns a name with two colons",
        "PluginFailed",
        "platform plugin 'dev' answered with the str 'dev_cls:Platform:x'",
        "return 'dev_cls:Platform:x'",
    ),
    act(
        "answers-true",
        "`activate()` returns True",
        "PluginFailed",
        "platform plugin 'dev' answered with the bool True",
        "return True",
    ),
    act(
        "answers-false",
        "`activate()` returns False",
        "PluginFailed",
        "platform plugin 'dev' answered with the bool False",
        "return False",
    ),
    act(
        "answers-instance",
        "`activate()` returns the platform itself",
        "PluginFailed",
        "platform plugin 'dev' answered with the Platform Platform(device=dev)",
        "from dev_cls import Platform; return Platform()",
    ),
    act(
        "answers-module-only",
        "`activate()` returns a module's name",
        "PluginFailed",
        "platform plugin 'dev' answered with the str 'dev_cls'",
        "return 'dev_cls'",
    ),
    act(
        "answers-no-module",
        "`activate()` names a module that does not exist",
        "PluginFailed",
        "ModuleNotFoundError: No module named 'dev_class'",
        "return 'dev_class:Platform'",
    ),
    act(
        "answers-misspelt-class",
        "`activate()` names a class that its module lacks",
        "PluginFailed",
        "AttributeError: module 'dev_cls' has no attribute 'Platfrom'",
        "return 'dev_cls:Platfrom'",
    ),
    act(
        "answers-function",
        "`activate()` names a function in place of a class",
        "NotAPlatformClass",
        "it is the function <function activate",
        "return 'dev_plugin:activate'",
    ),
    act(
        "answers-int-value",
        "`activate()` names a number in place of a class",
        "NotAPlatformClass",
        "it is the int 9223372036854775807",
        "return 'sys:maxsize'",
    ),
    act(
        "answers-other-class",
        "`activate()` names a class that is no platform",
        "NotAPlatformClass",
        "it is the type <class 'pathlib.Path'> on pathlib.PurePath",
        "return 'pathlib:Path'",
    ),
    act(
        "answers-generator",
        "`activate()` is a generator",
        "PluginFailed",
        "platform plugin 'dev' answered with the generator <generator object activate",
        "yield 'dev_cls:Platform'",
    ),
    act(
        "answers-str-subclass",
        "`activate()` returns a text whose class overrides its methods",
        "right",
        "the platform 'dev'",
        "return Odd('dev_cls:Platform')",
        "class Odd(str):\n    def partition(self, sep): raise RuntimeError('odd')\n"
        "    def split(self, *a): raise RuntimeError('odd')\n",
    ),
    act(
        "answers-repr-raises",
        "`activate()` returns an object whose `__repr__` raises",
        "PluginFailed",
        "platform plugin 'dev' answered with the Odd <Odd object, whose __repr__ raises RuntimeError>",
        "return Odd()",
        "class Odd:\n    def __repr__(self): raise RuntimeError('no words')\n",
    ),
    act(
        "answers-bool-raises",
        "`activate()` returns an object whose truth raises",
        "PluginFailed",
        "platform plugin 'dev' answered with the Odd <dev_plugin.Odd object",
        "return Odd()",
        "class Odd:\n    def __bool__(self): raise RuntimeError('neither')\n",
    ),
    chosen_fault(
        "activate-async",
        "`activate()` is a coroutine function",
        "PluginFailed",
        "platform plugin 'dev' answered with the coroutine <coroutine object start",
        distributions=(
            platform(
                "dev", head="async def start(): return 'dev_cls:Platform'", entry_point="dev_plugin:start"
            ),
        ),
    ),
    chosen_fault(
        "activate-parameter",
        "`activate()` has a parameter without a default",
        "PluginFailed",
        "TypeError: start() missing 1 required positional argument: 'args'",
        distributions=(
            platform(
                "dev", head="def start(args): return 'dev_cls:Platform'", entry_point="dev_plugin:start"
            ),
        ),
    ),
    chosen_fault(
        "activate-value",
        "the entry point names a number",
        "PluginFailed",
        "the entry point 'dev' names the int 3, not a function",
        distributions=(platform("dev", head="start = 3", entry_point="dev_plugin:start"),),
    ),
    chosen_fault(
        "activate-class",
        "the entry point names the platform's class",
        "PluginFailed",
        "the entry point 'dev' names the type <class 'dev_cls.Platform'>, not a function",
        distributions=(platform("dev", entry_point="dev_cls:Platform"),),
    ),
    chosen_fault(
        "activate-none",
        "the entry point names None",
        "PluginFailed",
        "the entry point 'dev' names the NoneType None, not a function",
        distributions=(platform("dev", head="start = None", entry_point="dev_plugin:start"),),
    ),
    chosen_fault(
        "module-getattr",
        "the plugin's module answers every name with an error",
        "PluginFailed",
        "RuntimeError: start",
        distributions=(
            platform(
                "dev", head="def __getattr__(name): raise RuntimeError(name)", entry_point="dev_plugin:start"
            ),
        ),
    ),
    act(
        "activate-chdir",
        "`activate()` changes the working directory",
        "right",
        "the platform 'dev'",
        "import os; os.chdir('/')\nreturn 'dev_cls:Platform'",
    ),
    act(
        "activate-asks-platform",
        "`activate()` asks for the current platform",
        "ReentrantResolution",
        "the current platform was touched while it is being resolved",
        "from touch import touched; return touched() and 'dev_cls:Platform'",
    ),
    act(
        "activate-loads-plugins",
        "`activate()` calls `load_plugins()`",
        "right",
        "the platform 'dev'",
        "from framework import load_plugins\nload_plugins()\nreturn 'dev_cls:Platform'",
    ),
    cls(
        "init-exits",
        "the platform's `__init__` raises SystemExit",
        "PluginFailed",
        "SystemExit: 1",
        INIT + "    def __init__(self): raise SystemExit(1)\n",
    ),
    cls(
        "init-str",
        "the platform's `__init__` raises an error whose `__str__` raises",
        "PluginFailed",
        "Odd: (its text cannot be had: __str__ raises RuntimeError)",
        INIT
        + "    def __init__(self): raise Odd\nclass Odd(Exception):\n    def __str__(self): raise RuntimeError\n",
    ),
    cls(
        "new-none",
        "the platform's `__new__` gives None",
        "PluginFailed",
        "TypeError: vars() argument must have __dict__ attribute",
        INIT + "    def __new__(cls): return None\n",
    ),
    cls(
        "new-other",
        "the platform's `__new__` gives an object of another class",
        "PluginFailed",
        "TypeError: vars() argument must have __dict__ attribute",
        INIT + "    def __new__(cls): return 3\n",
    ),
    cls(
        "abstract",
        "the platform has an abstract method",
        "ContractError",
        "abc is not a name of the contract",
        INIT + "    import abc\n    @abc.abstractmethod\n    def start(self): ...\n",
    ),
]
