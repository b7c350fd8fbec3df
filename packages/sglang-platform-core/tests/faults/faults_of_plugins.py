"""Faults of general plugins: which run, and what is left of one that fails."""

from __future__ import annotations

from fault_definition import DOCTOR, GENERAL, PLATFORMS, Distribution, Fault, general, platform

__all__ = ["FAULTS"]

SHOUT = "HookRegistry.register('engine.greet', lambda result, name: result.upper())"
MODULES = {
    "engine": "def greet(name): return f'hello {name}'\n",
    "dev_hooks": f"from framework import HookRegistry\ndef register():\n    {SHOUT}\n",
}
OWN_HOOKS = {GENERAL: {"dev_hooks": "dev_hooks:register"}}
LOAD = """
from framework import load_plugins
load_plugins()
import engine
see(engine.greet('you'))
"""
LOG = "log (log-dist 1.0)"


def _fault(name: str, title: str, ends: str, *says: str, **rest: object) -> Fault:
    return Fault(name, title, str(rest.pop("act", LOAD)), ends, says, modules=MODULES, **rest)  # type: ignore[arg-type]


FAULTS = [
    _fault(
        "general-raises",
        "a general plugin raises half way",
        "PluginFailed",
        "general plugin 'log' failed",
        "RuntimeError: no collector",
        "log_hooks.py:4",
        plugin=LOG,
        distributions=(general("log", f"{SHOUT}\nraise RuntimeError('no collector')"),),
    ),
    _fault(
        "half-registered-hooks",
        "a general plugin raises half way; what is left of its hooks",
        "warning",
        "SGLANG_PLATFORM_ON_ERROR=warn, going on without it: general plugin 'log' failed",
        seen="hello you",
        distributions=(general("log", f"{SHOUT}\nraise RuntimeError('no collector')"),),
        environment={"SGLANG_PLATFORM_ON_ERROR": "warn"},
    ),
    _fault(
        "general-exits",
        "a general plugin raises SystemExit",
        "PluginFailed",
        "general plugin 'log' failed",
        "SystemExit: 0",
        plugin=LOG,
        distributions=(general("log", "raise SystemExit(0)"),),
    ),
    _fault(
        "general-not-importable",
        "a general plugin's module does not exist",
        "PluginFailed",
        "No module named 'log_gone'",
        plugin=LOG,
        distributions=(general("log", "pass", entry_point="log_gone:register"),),
    ),
    _fault(
        "general-dependency",
        "a dependency of a general plugin is not installed",
        "PluginFailed",
        "install what provides 'prometheus_client_gone'",
        plugin=LOG,
        distributions=(
            general("log", "import prometheus_client_gone", requires=("prometheus-client-gone>=1",)),
        ),
    ),
    _fault(
        "loaded-again",
        "`load_plugins()` is called again after it failed",
        "right",
        act="""
        from framework import load_plugins
        for _ in range(2):
            try:
                load_plugins()
                see("returned")
            except Exception as error:
                see(type(error).__name__)
        """,
        seen="PluginFailed; PluginFailed",
        distributions=(general("log", "raise RuntimeError('no collector')"),),
    ),
    _fault(
        "general-duplicate",
        "two distributions have a general plugin of one name",
        "DuplicatePlugins",
        "2 plugins are named 'log' in sglang.srt.plugins",
        "keep one: pip uninstall log-dist or pip uninstall other-dist",
        distributions=(
            general("log", SHOUT),
            Distribution(
                "other-dist",
                {GENERAL: {"log": "other_hooks:register"}},
                {"other_hooks": "def register(): ...\n"},
            ),
        ),
    ),
    _fault(
        "general-contract",
        "a general plugin is built for contract version 2",
        "ContractVersionError",
        "plugin 'log' is built for contract version 2, this core speaks version 1",
        plugin=LOG,
        distributions=(general("log", SHOUT, contract="v2"),),
        not_in_host="no contract version",
    ),
    _fault(
        "inactive-platforms-hooks",
        "the hooks of an installed platform that declined",
        "trace",
        "it belongs to the platform 'dev', and the active one is good",
        seen="hello you",
        distributions=(
            platform("dev", "return None", groups=OWN_HOOKS),
            platform("good"),
        ),
    ),
    _fault(
        "two-platforms-in-one-distribution",
        "a distribution with two platforms, one of them named by `SGLANG_PLATFORM`, and hooks",
        "right",
        seen="HELLO YOU",
        distributions=(
            platform(
                "dev",
                groups={
                    PLATFORMS: {"dev": "dev_plugin:activate", "dev_small": "dev_plugin:activate"},
                    **OWN_HOOKS,
                },
            ),
        ),
        environment={"SGLANG_PLATFORM": "dev"},
    ),
    _fault(
        "filter-misspelt",
        "`SGLANG_PLUGINS` is misspelt",
        "PluginNotFound",
        "SGLANG_PLUGINS names 'lgo', which is no installed plugin; did you mean 'log'?",
        "installed general plugins: log",
        distributions=(general("log", SHOUT),),
        environment={"SGLANG_PLUGINS": "lgo"},
    ),
    _fault(
        "filter-names-nothing",
        "`SGLANG_PLUGINS` holds a comma and no name",
        "ConfigurationError",
        "SGLANG_PLUGINS=',' names no plugin",
        "it would keep every general plugin out",
        distributions=(general("log", SHOUT),),
        environment={"SGLANG_PLUGINS": ","},
    ),
    _fault(
        "plugins-hook-misspelt",
        "a plugin's hook has a misspelt target",
        "HookTargetError",
        "engine.great: engine has no 'great'; nearest: engine:greet",
        "AFTER hook log_hooks.register.<locals>.<lambda>",
        plugin=LOG,
        distributions=(
            general("log", "HookRegistry.register('engine.great', lambda result, name: result.upper())"),
        ),
    ),
    _fault(
        "filter-hides-core",
        "`SGLANG_PLUGINS` keeps this project's own plugin out of SGLang",
        "doctor",
        "SGLANG_PLUGINS=log keeps 'sglang_platform_core' out of SGLang",
        "add sglang_platform_core to SGLANG_PLUGINS",
        act=DOCTOR,
        distributions=(general("log", SHOUT),),
        environment={"SGLANG_PLUGINS": "log"},
        not_in_host="no diagnosis",
    ),
    _fault(
        "filter-hides-platform-from-host",
        "`SGLANG_PLUGINS` hides a platform from SGLang",
        "doctor",
        "SGLANG_PLUGINS=log hides the platform 'dev' from SGLang",
        "set SGLANG_PLATFORM=dev, or add dev to SGLANG_PLUGINS",
        act=DOCTOR,
        distributions=(general("log", SHOUT), platform("dev")),
        environment={"SGLANG_PLUGINS": "log"},
        not_in_host="no diagnosis",
    ),
]
