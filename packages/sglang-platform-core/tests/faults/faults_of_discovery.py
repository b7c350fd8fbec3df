"""Faults in finding, asking and choosing the platform."""

from __future__ import annotations

from fault_definition import PLATFORMS, Distribution, Fault, platform

__all__ = ["FAULTS"]

DEV = "dev (dev-dist 1.0)"
CHOSEN = "chosen()"
FAILED_IN_ACTIVATE = "platform plugin 'dev' failed in activate()"
NOT_IMPORTED = "plugin 'dev' could not be imported"
NO_VARIABLE = "no such variable"
NO_CONTRACT = "no contract version"


def _fault(name: str, title: str, ends: str, *says: str, **rest: object) -> Fault:
    return Fault(name, title, str(rest.pop("act", CHOSEN)), ends, says, **rest)  # type: ignore[arg-type]


FAULTS = [
    # --- the plugin fails
    _fault(
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
    _fault(
        "named-activate-raises",
        "`activate()` of the platform named by `SGLANG_PLATFORM` raises",
        "PluginFailed",
        FAILED_IN_ACTIVATE,
        "RuntimeError: no firmware",
        plugin=DEV,
        distributions=(platform("dev", "raise RuntimeError('no firmware')"),),
        environment={"SGLANG_PLATFORM": "dev"},
    ),
    _fault(
        "import-error",
        "the plugin's module raises while it is imported",
        "PluginFailed",
        NOT_IMPORTED,
        "OSError: libmydev.so: no such file",
        "dev_plugin.py:1",
        plugin=DEV,
        distributions=(platform("dev", head="raise OSError('libmydev.so: no such file')"),),
    ),
    _fault(
        "missing-dependency",
        "a dependency of the plugin, declared in an extra, is not installed",
        "PluginFailed",
        "pip install 'dev-dist[gpu]'",
        NOT_IMPORTED,
        "No module named 'dev_runtime'",
        plugin=DEV,
        distributions=(
            platform("dev", head="import dev_runtime", requires=('dev-runtime>=2; extra == "gpu"',)),
        ),
    ),
    _fault(
        "undeclared-dependency",
        "a dependency that the plugin does not declare is not installed",
        "PluginFailed",
        "dev-dist does not declare it",
        "the module 'dev_runtime' is missing",
        plugin=DEV,
        distributions=(platform("dev", "import dev_runtime"),),
    ),
    _fault(
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
    _fault(
        "activate-returns-int",
        "`activate()` returns an int",
        "PluginFailed",
        "platform plugin 'dev' answered with the int 1",
        'activate() must return "pkg.mod:Class", "pkg.mod.Class" or None',
        plugin=DEV,
        distributions=(platform("dev", "return 1"),),
    ),
    _fault(
        "activate-returns-class",
        "`activate()` returns the class instead of its name",
        "PluginFailed",
        "platform plugin 'dev' answered with the type <class 'dev_cls.Platform'>",
        plugin=DEV,
        distributions=(platform("dev", "from dev_cls import Platform; return Platform"),),
    ),
    _fault(
        "activate-exits",
        "`activate()` raises SystemExit",
        "PluginFailed",
        "SystemExit: no licence",
        FAILED_IN_ACTIVATE,
        "to decline, activate() returns None or raises PlatformUnavailable",
        plugin=DEV,
        distributions=(platform("dev", "raise SystemExit('no licence')"),),
    ),
    _fault(
        "named-declines",
        "`SGLANG_PLATFORM` names a platform whose `activate()` returns None",
        "PluginFailed",
        "SGLANG_PLATFORM='dev': the plugin is installed, but its device is not available",
        "make the device available, or unset SGLANG_PLATFORM",
        plugin=DEV,
        distributions=(platform("dev", "return None"),),
        environment={"SGLANG_PLATFORM": "dev"},
    ),
    _fault(
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
    _fault(
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
    # --- the entry point
    _fault(
        "removed-module",
        "the entry point's module was removed",
        "PluginFailed",
        "points to the module 'gone', which does not exist in this environment",
        "correct the entry point in dev-dist and install it again",
        plugin=DEV,
        distributions=(platform("dev", entry_point="gone:activate"),),
    ),
    _fault(
        "missing-attribute",
        "the entry point names an attribute that its module lacks",
        "PluginFailed",
        "names 'activat', which the module 'dev_plugin' does not have; did you mean 'activate'?",
        plugin=DEV,
        distributions=(platform("dev", entry_point="dev_plugin:activat"),),
    ),
    _fault(
        "entry-point-module",
        "the entry point names a module, not a function",
        "PluginFailed",
        "the entry point 'dev' names a module, not a function",
        "name the function after a colon: `pkg.mod:function`",
        plugin=DEV,
        distributions=(platform("dev", entry_point="dev_plugin"),),
    ),
    _fault(
        "entry-point-malformed",
        "the entry point is no object reference",
        "PluginFailed",
        "'dev plugin!' is no object reference",
        plugin=DEV,
        distributions=(platform("dev", entry_point="dev plugin!"),),
    ),
    _fault(
        "retired-group",
        "the entry point is in a group that nobody reads",
        "doctor",
        "the entry-point group 'sglang.platform_plugins' is read by nobody",
        "move it to 'sglang.srt.platforms'",
        act="import sys; sys.argv = ['sglang-platform', 'doctor']\n"
        "from sglang_platform.core.cli import main\nmain()",
        distributions=(
            Distribution("dev-dist", {"sglang.platform_plugins": {"dev": "dev_plugin:activate"}}),
        ),
        not_in_host="no diagnosis",
    ),
    # --- the choice
    _fault(
        "name-misspelt",
        "`SGLANG_PLATFORM` is misspelt",
        "PluginNotFound",
        "SGLANG_PLATFORM='exmaple_oot' names no installed platform plugin; did you mean 'example_oot'?",
        "installed: example_oot (example_oot-dist 1.0)",
        "set SGLANG_PLATFORM=example_oot",
        distributions=(platform("example_oot"),),
        environment={"SGLANG_PLATFORM": "exmaple_oot"},
    ),
    _fault(
        "nothing-installed",
        "`SGLANG_PLATFORM` is set and no platform is installed",
        "PluginNotFound",
        "SGLANG_PLATFORM='dev', but no platform plugin is installed",
        "pip install the package that brings it (into this environment)",
        environment={"SGLANG_PLATFORM": "dev"},
    ),
    _fault(
        "two-active",
        "two platforms are active",
        "SeveralPlatforms",
        "2 platforms are active: dev (dev-dist 1.0), other (other-dist 1.0)",
        "set SGLANG_PLATFORM=dev or SGLANG_PLATFORM=other",
        distributions=(platform("dev"), platform("other")),
    ),
    _fault(
        "duplicate-names",
        "two distributions have a platform of one name",
        "DuplicatePlugins",
        "2 plugins are named 'dev' in sglang.srt.platforms",
        "uninstall all but one of: dev-dist, second-dist",
        distributions=(
            platform("dev"),
            Distribution(
                "second-dist",
                {PLATFORMS: {"dev": "second_plugin:activate"}},
                {"second_plugin": "def activate(): return 'dev_cls:Platform'\n"},
            ),
        ),
    ),
    _fault(
        "plugins-hides-platform",
        "`SGLANG_PLUGINS` names a general plugin, and with that hides the platform",
        "right",
        seen="the platform 'dev'",
        distributions=(
            platform("dev"),
            Distribution(
                "log-dist", {"sglang.srt.plugins": {"log": "log_hooks:register"}}, {"log_hooks": ""}
            ),
        ),
        environment={"SGLANG_PLUGINS": "log"},
    ),
    _fault(
        "contract-ahead",
        "the plugin is built for contract version 2",
        "ContractVersionError",
        "plugin 'dev' is built for contract version 2, this core speaks version 1",
        "nothing of it was imported",
        "pip install --upgrade sglang-platform-core",
        plugin=DEV,
        distributions=(platform("dev", contract="v2", head="raise SystemError('imported')"),),
        not_in_host=NO_CONTRACT,
    ),
    _fault(
        "contract-unreadable",
        "the plugin states a contract version that is none",
        "ContractVersionError",
        "plugin 'dev' states the contract version 'one', which is none",
        "a contract version is written `v<number>`",
        plugin=DEV,
        distributions=(platform("dev", contract="one"),),
        not_in_host=NO_CONTRACT,
    ),
    # --- the variables
    _fault(
        "plugin-variable-malformed",
        "`SGLANG_PLATFORM_PLUGIN` is malformed",
        "ConfigurationError",
        "SGLANG_PLATFORM_PLUGIN='dev_cls:Platform' cannot be read",
        "it must be `name=pkg.mod:Class`",
        environment={"SGLANG_PLATFORM_PLUGIN": "dev_cls:Platform"},
        not_in_host=NO_VARIABLE,
    ),
    _fault(
        "variables-contradict",
        "`SGLANG_PLATFORM` and `SGLANG_PLATFORM_PLUGIN` name two platforms",
        "ConfigurationError",
        "SGLANG_PLATFORM='dev' and SGLANG_PLATFORM_PLUGIN name two platforms",
        "unset one of them",
        distributions=(platform("dev"),),
        environment={"SGLANG_PLATFORM": "dev", "SGLANG_PLATFORM_PLUGIN": "mine=dev_cls:Platform"},
        not_in_host=NO_VARIABLE,
    ),
    _fault(
        "on-error-misspelt",
        "`SGLANG_PLATFORM_ON_ERROR` is misspelt",
        "ConfigurationError",
        "SGLANG_PLATFORM_ON_ERROR='wran' is no error policy",
        "set SGLANG_PLATFORM_ON_ERROR=warn",
        distributions=(platform("dev"),),
        environment={"SGLANG_PLATFORM_ON_ERROR": "wran"},
        not_in_host=NO_VARIABLE,
    ),
]
