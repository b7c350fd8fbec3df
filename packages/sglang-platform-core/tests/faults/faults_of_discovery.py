"""Faults of a platform plugin: it fails as it is asked, or its entry point is wrong."""

from __future__ import annotations

from fault_definition import DOCTOR, Distribution, chosen_fault, platform

__all__ = ["FAULTS"]

DEV = "dev (dev-dist 1.0)"
FAILED_IN_ACTIVATE = "platform plugin 'dev' failed in activate()"
NOT_IMPORTED = "plugin 'dev' could not be imported"

PLUGIN_FAILS = [
    chosen_fault(
        "activate-raises",
        "`activate()` raises",
        "PluginFailed",
        FAILED_IN_ACTIVATE,
        "RuntimeError: firmware 3.1 is too old",
        "dev_plugin.py:3",
        "go on without it: SGLANG_PLATFORM_ON_ERROR=warn",
        plugin=DEV,
        distributions=(platform("dev", "raise RuntimeError('firmware 3.1 is too old')"),),
    ),
    chosen_fault(
        "named-activate-raises",
        "`activate()` of the platform named by `SGLANG_PLATFORM` raises",
        "PluginFailed",
        FAILED_IN_ACTIVATE,
        "RuntimeError: no firmware",
        plugin=DEV,
        distributions=(platform("dev", "raise RuntimeError('no firmware')"),),
        environment={"SGLANG_PLATFORM": "dev"},
    ),
    chosen_fault(
        "import-error",
        "the plugin's module raises while it is imported",
        "PluginFailed",
        NOT_IMPORTED,
        "OSError: libmydev.so: no such file",
        "dev_plugin.py:1",
        plugin=DEV,
        distributions=(platform("dev", head="raise OSError('libmydev.so: no such file')"),),
    ),
    chosen_fault(
        "missing-dependency",
        "a dependency of the plugin, declared in an extra, is not installed",
        "PluginFailed",
        "install what provides 'dev_runtime'",
        NOT_IMPORTED,
        "No module named 'dev_runtime'",
        plugin=DEV,
        distributions=(
            platform("dev", head="import dev_runtime", requires=('dev-runtime>=2; extra == "gpu"',)),
        ),
    ),
    chosen_fault(
        "undeclared-dependency",
        "a dependency that the plugin does not declare is not installed",
        "PluginFailed",
        "install what provides 'dev_runtime'",
        "No module named 'dev_runtime'",
        plugin=DEV,
        distributions=(platform("dev", "import dev_runtime"),),
    ),
    chosen_fault(
        "masked-cause",
        "the plugin hides the cause behind an error of its own",
        "PluginFailed",
        "first cause: FileNotFoundError",
        "ImportError: cannot load dev",
        "/does/not/exist",
        plugin=DEV,
        distributions=(
            platform(
                "dev",
                """
                try:
                    open('/does/not/exist')
                except OSError:
                    raise ImportError('cannot load dev')
                """,
            ),
        ),
    ),
    chosen_fault(
        "activate-returns-int",
        "`activate()` returns an int",
        "PluginFailed",
        "platform plugin 'dev' answered with the int 1",
        'activate() must return "pkg.mod:Class", "pkg.mod.Class" or None',
        plugin=DEV,
        distributions=(platform("dev", "return 1"),),
    ),
    chosen_fault(
        "activate-returns-class",
        "`activate()` returns the class instead of its name",
        "PluginFailed",
        "platform plugin 'dev' answered with the type <class 'dev_cls.Platform'>",
        plugin=DEV,
        distributions=(platform("dev", "from dev_cls import Platform; return Platform"),),
    ),
    chosen_fault(
        "activate-exits",
        "`activate()` raises SystemExit",
        "PluginFailed",
        "SystemExit: no licence",
        FAILED_IN_ACTIVATE,
        "to decline, activate() returns None or raises PlatformUnavailable",
        plugin=DEV,
        distributions=(platform("dev", "raise SystemExit('no licence')"),),
    ),
    chosen_fault(
        "named-declines",
        "`SGLANG_PLATFORM` names a platform whose `activate()` returns None",
        "PluginFailed",
        "SGLANG_PLATFORM='dev': the plugin is installed, but its device is not available",
        "make the device available, or unset SGLANG_PLATFORM",
        plugin=DEV,
        distributions=(platform("dev", "return None"),),
        environment={"SGLANG_PLATFORM": "dev"},
    ),
    chosen_fault(
        "declines-with-reason",
        "a platform declines and gives its reason",
        "trace",
        "no /dev/kfd",
        "declined",
        seen="the base platform",
        distributions=(
            platform(
                "dev",
                "from framework import PlatformUnavailable\nraise PlatformUnavailable('no /dev/kfd')",
            ),
        ),
        not_in_host="a plugin cannot give a reason",
    ),
    chosen_fault(
        "on-error-warn",
        "a plugin fails, and `SGLANG_PLATFORM_ON_ERROR=warn` asks to go on",
        "warning",
        "SGLANG_PLATFORM_ON_ERROR=warn, going on without it",
        FAILED_IN_ACTIVATE,
        seen="the platform 'good'",
        distributions=(platform("dev", "raise RuntimeError('no firmware')"), platform("good")),
        environment={"SGLANG_PLATFORM_ON_ERROR": "warn"},
        not_in_host="it always goes on",
    ),
]

ENTRY_POINT = [
    chosen_fault(
        "removed-module",
        "the entry point's module was removed",
        "PluginFailed",
        "No module named 'gone'",
        "correct the entry point dev = gone:activate of dev-dist",
        plugin=DEV,
        distributions=(platform("dev", entry_point="gone:activate"),),
    ),
    chosen_fault(
        "missing-attribute",
        "the entry point names an attribute that its module lacks",
        "PluginFailed",
        "module 'dev_plugin' has no attribute 'activat'",
        plugin=DEV,
        distributions=(platform("dev", entry_point="dev_plugin:activat"),),
    ),
    chosen_fault(
        "entry-point-module",
        "the entry point names a module, not a function",
        "PluginFailed",
        "the entry point 'dev' names the module <module 'dev_plugin'",
        "name the function, as in `pkg.mod:function`",
        plugin=DEV,
        distributions=(platform("dev", entry_point="dev_plugin"),),
    ),
    chosen_fault(
        "entry-point-malformed",
        "the entry point is no object reference",
        "PluginFailed",
        "correct the entry point dev = dev plugin! of dev-dist",
        plugin=DEV,
        distributions=(platform("dev", entry_point="dev plugin!"),),
    ),
    chosen_fault(
        "retired-group",
        "the entry point is in a group that nobody reads",
        "doctor",
        "the entry-point group 'sglang.platform_plugins' is read by nobody",
        "move it to 'sglang.srt.platforms'",
        act=DOCTOR,
        distributions=(
            Distribution("dev-dist", {"sglang.platform_plugins": {"dev": "dev_plugin:activate"}}),
        ),
        not_in_host="no diagnosis",
    ),
]

FAULTS = [*PLUGIN_FAILS, *ENTRY_POINT]
