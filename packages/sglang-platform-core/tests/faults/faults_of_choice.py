"""Faults in choosing the platform, and of the variables that choose it."""

from __future__ import annotations

from fault_definition import PLATFORMS, Distribution, chosen_fault, platform

__all__ = ["FAULTS"]

DEV = "dev (dev-dist 1.0)"
NO_VARIABLE = "no such variable"
NO_CONTRACT = "no contract version"

CHOICE = [
    chosen_fault(
        "name-misspelt",
        "`SGLANG_PLATFORM` is misspelt",
        "PluginNotFound",
        "SGLANG_PLATFORM='exmaple_oot' names no installed platform plugin; did you mean 'example_oot'?",
        "installed: example_oot (example_oot-dist 1.0)",
        "set SGLANG_PLATFORM=example_oot",
        distributions=(platform("example_oot"),),
        environment={"SGLANG_PLATFORM": "exmaple_oot"},
    ),
    chosen_fault(
        "nothing-installed",
        "`SGLANG_PLATFORM` is set and no platform is installed",
        "PluginNotFound",
        "SGLANG_PLATFORM='dev', but no platform plugin is installed",
        "pip install the package that brings it (into this environment)",
        environment={"SGLANG_PLATFORM": "dev"},
    ),
    chosen_fault(
        "two-active",
        "two platforms are active",
        "SeveralPlatforms",
        "2 platforms are active: dev (dev-dist 1.0), other (other-dist 1.0)",
        "set SGLANG_PLATFORM=dev or SGLANG_PLATFORM=other",
        distributions=(platform("dev"), platform("other")),
    ),
    chosen_fault(
        "duplicate-names",
        "two distributions have a platform of one name",
        "DuplicatePlugins",
        "2 plugins are named 'dev' in sglang.srt.platforms",
        "keep one: pip uninstall dev-dist or pip uninstall second-dist",
        distributions=(
            platform("dev"),
            Distribution(
                "second-dist",
                {PLATFORMS: {"dev": "second_plugin:activate"}},
                {"second_plugin": "def activate(): return 'dev_cls:Platform'\n"},
            ),
        ),
    ),
    chosen_fault(
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
    chosen_fault(
        "contract-ahead",
        "the plugin is built for contract version 2",
        "ContractVersionError",
        "plugin 'dev' is built for contract version 2, this core speaks version 1",
        "nothing of it was imported",
        "install a matching version of sglang-platform-core",
        plugin=DEV,
        distributions=(platform("dev", contract="v2", head="raise SystemError('imported')"),),
        not_in_host=NO_CONTRACT,
    ),
    chosen_fault(
        "contract-unreadable",
        "the plugin states a contract version that is none",
        "ContractVersionError",
        "plugin 'dev' states the contract version 'one', which is none",
        "a contract version is written `v<number>`",
        plugin=DEV,
        distributions=(platform("dev", contract="one"),),
        not_in_host=NO_CONTRACT,
    ),
]

VARIABLES = [
    chosen_fault(
        "plugin-variable-malformed",
        "`SGLANG_PLATFORM_PLUGIN` is malformed",
        "ConfigurationError",
        "SGLANG_PLATFORM_PLUGIN='dev_cls' cannot be read",
        "it must be `name=pkg.mod:Class`",
        environment={"SGLANG_PLATFORM_PLUGIN": "dev_cls"},
        not_in_host=NO_VARIABLE,
    ),
    chosen_fault(
        "variables-contradict",
        "`SGLANG_PLATFORM` and `SGLANG_PLATFORM_PLUGIN` name two platforms",
        "ConfigurationError",
        "SGLANG_PLATFORM='dev' and SGLANG_PLATFORM_PLUGIN name two platforms",
        "unset one of them",
        distributions=(platform("dev"),),
        environment={"SGLANG_PLATFORM": "dev", "SGLANG_PLATFORM_PLUGIN": "mine=dev_cls:Platform"},
        not_in_host=NO_VARIABLE,
    ),
    chosen_fault(
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

FAULTS = [*CHOICE, *VARIABLES]
