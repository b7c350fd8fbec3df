"""Faults of the chosen platform: its class, and touching it too early or from several threads."""

from __future__ import annotations

from fault_definition import CHOSEN, Fault, chosen_fault, platform

__all__ = ["FAULTS"]

DEV = "dev (dev-dist 1.0)"
TOUCH = "from framework import current_platform\ncurrent_platform.device_name\n"
REENTRANT = "the current platform was touched while it is being resolved"


def _class(
    name: str,
    title: str,
    *says: str,
    activate: str | None = None,
    cls: str | None = None,
    ends: str = "PluginFailed",
) -> Fault:
    made = (platform("dev", activate, cls=cls),)
    return chosen_fault(name, title, ends, *says, plugin=DEV, distributions=made)


FAULTS = [
    _class(
        "class-module-missing",
        "the class's module does not exist",
        "the platform class dev_gone:Platform of plugin 'dev' could not be loaded",
        "No module named 'dev_gone'",
        "correct dev_gone:Platform",
        activate="return 'dev_gone:Platform'",
    ),
    _class(
        "class-misspelt",
        "the class's name is misspelt",
        "the platform class dev_cls:Platfrom of plugin 'dev' could not be loaded",
        "has no attribute 'Platfrom'",
        "correct dev_cls:Platfrom",
        activate="return 'dev_cls:Platfrom'",
    ),
    _class(
        "class-module-raises",
        "the class's module raises while it is imported",
        "the platform class dev_cls:Platform of plugin 'dev' could not be loaded",
        "ZeroDivisionError",
        "dev_cls.py:1",
        cls="1 / 0",
    ),
    _class(
        "no-subclass",
        "the class is not derived from SRTPlatform",
        "plugin 'dev' names dev_cls:Platform, which is not a platform class",
        "derive the class from sglang_platform.core.contract.srt.SRTPlatform",
        cls="class Platform: device_name = 'dev'",
        ends="NotAPlatformClass",
    ),
    _class(
        "no-class",
        "a function stands where the class should be",
        "plugin 'dev' names dev_cls:Platform, which is not a platform class",
        "it is the function",
        cls="def Platform(): ...",
        ends="NotAPlatformClass",
    ),
    _class(
        "init-raises",
        "the class's `__init__` raises",
        "the platform dev_cls.Platform could not be instantiated",
        "OSError: no context",
        cls="""
        from framework import SRTPlatform
        class Platform(SRTPlatform):
            def __init__(self): raise OSError('no context')
        """,
    ),
    _class(
        "init-takes-arguments",
        "the class's `__init__` requires an argument",
        "its __init__ takes no arguments and must not raise",
        "could not be instantiated",
        cls="""
        from framework import SRTPlatform
        class Platform(SRTPlatform):
            def __init__(self, device): ...
        """,
    ),
    Fault(
        "touched-in-activate",
        "`activate()` touches `current_platform`",
        CHOSEN,
        "ReentrantResolution",
        (REENTRANT, "dev_plugin.py:4", "not in activate()"),
        plugin=DEV,
        distributions=(platform("dev", TOUCH + "return 'dev_cls:Platform'"),),
    ),
    Fault(
        "touched-in-class-module",
        "the class's module touches `current_platform`",
        CHOSEN,
        "ReentrantResolution",
        (REENTRANT, "dev_cls.py:2"),
        plugin=DEV,
        distributions=(
            platform(
                "dev",
                cls=TOUCH
                + "from framework import SRTPlatform\nclass Platform(SRTPlatform): device_name = 'dev'\n",
            ),
        ),
    ),
    Fault(
        "touched-in-init",
        "the class's `__init__` touches `current_platform`",
        CHOSEN,
        "ReentrantResolution",
        (REENTRANT, "dev_cls.py:"),
        plugin=DEV,
        distributions=(
            platform(
                "dev",
                cls="""
                from framework import SRTPlatform
                class Platform(SRTPlatform):
                    device_name = 'dev'
                    def __init__(self):
                        from framework import current_platform
                        current_platform.device_name
                """,
            ),
        ),
    ),
    Fault(
        "imported-at-the-top",
        "the plugin's module imports `current_platform` at its top, for later",
        """
        chosen()
        import dev_plugin, touch
        same = dev_plugin.current_platform is touch.touched()
        see(f"the plugin holds {'the same' if same else 'another'}")
        """,
        "right",
        seen="the platform 'dev'; the plugin holds the same",
        distributions=(platform("dev", head="from framework import current_platform"),),
    ),
    Fault(
        "several-threads",
        "eight threads touch `current_platform` at once",
        """
        import threading
        from dev_plugin import calls
        from touch import touched

        found, start = [], threading.Barrier(8)

        def touch():
            start.wait()
            found.append(touched())

        threads = [threading.Thread(target=touch) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        asked = "once" if len(calls) == 1 else "several times"
        objects = "one object" if len({id(one) for one in found}) == 1 else "several objects"
        see(f"activate() was called {asked}, the threads have {objects}")
        """,
        "right",
        seen="activate() was called once, the threads have one object",
        distributions=(
            platform(
                "dev",
                "calls.append(1)\ntime.sleep(0.05)\nreturn 'dev_cls:Platform'",
                head="import time\ncalls = []",
            ),
        ),
    ),
    Fault(
        "asked-again",
        "a platform that was refused is touched again",
        """
        for _ in range(2):
            try:
                chosen()
            except Exception as error:
                see(type(error).__name__)
        """,
        "right",
        seen="PluginFailed; PluginFailed",
        distributions=(
            platform("dev", "calls.append(1)\nif len(calls) == 1: raise OSError('busy')", head="calls = []"),
        ),
    ),
]
