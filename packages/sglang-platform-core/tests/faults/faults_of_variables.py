"""Faults of the variables that name a platform."""

from __future__ import annotations

from fault_definition import Fault, dev_fault, platform

__all__ = ["FAULTS"]

NO_VARIABLE = "no such variable"


def env(
    name: str,
    title: str,
    ends: str,
    said: str,
    installed: tuple[str, ...] = ("dev",),
    not_in_host: str | None = None,
    **variables: str,
) -> Fault:
    """Platforms that are installed, and variables."""
    return dev_fault(
        name,
        title,
        ends,
        said,
        distributions=tuple(platform(one) for one in installed),
        environment=variables,
        not_in_host=not_in_host,
    )


FAULTS = [
    env("name-blank", "`SGLANG_PLATFORM` is blank", "right", "the platform 'dev'", SGLANG_PLATFORM="  "),
    env(
        "name-padded",
        "`SGLANG_PLATFORM` has blanks around its name",
        "right",
        "the platform 'dev'",
        SGLANG_PLATFORM=" dev ",
    ),
    env(
        "name-case",
        "`SGLANG_PLATFORM` is in other case",
        "PluginNotFound",
        "installed: dev (dev-dist 1.0)",
        SGLANG_PLATFORM="Dev",
    ),
    env(
        "name-quoted",
        "`SGLANG_PLATFORM` keeps its quotes",
        "PluginNotFound",
        "installed: dev (dev-dist 1.0)",
        SGLANG_PLATFORM='"dev"',
    ),
    env(
        "name-list",
        "`SGLANG_PLATFORM` names two platforms",
        "PluginNotFound",
        "installed: dev (dev-dist 1.0), other (other-dist 1.0)",
        ("dev", "other"),
        SGLANG_PLATFORM="dev,other",
    ),
    env(
        "name-distribution",
        "`SGLANG_PLATFORM` is the distribution's name",
        "PluginNotFound",
        "installed: dev (dev-dist 1.0)",
        SGLANG_PLATFORM="dev-dist",
    ),
    env(
        "name-reference",
        "`SGLANG_PLATFORM` is the class's name",
        "PluginNotFound",
        "installed: dev (dev-dist 1.0)",
        SGLANG_PLATFORM="dev_cls:Platform",
    ),
    env(
        "name-newline",
        "`SGLANG_PLATFORM` ends with a line end",
        "right",
        "the platform 'dev'",
        SGLANG_PLATFORM="dev\n",
    ),
    env(
        "variable-no-name",
        "`SGLANG_PLATFORM_PLUGIN` has no name",
        "ConfigurationError",
        "it must be `name=pkg.mod:Class`",
        (),
        SGLANG_PLATFORM_PLUGIN="=dev_cls:Platform",
        not_in_host=NO_VARIABLE,
    ),
    env(
        "variable-no-place",
        "`SGLANG_PLATFORM_PLUGIN` names no class",
        "ConfigurationError",
        "it must be `name=pkg.mod:Class`",
        (),
        SGLANG_PLATFORM_PLUGIN="dev=",
        not_in_host=NO_VARIABLE,
    ),
    env(
        "variable-two",
        "`SGLANG_PLATFORM_PLUGIN` names two",
        "ConfigurationError",
        "it must be `name=pkg.mod:Class`",
        (),
        SGLANG_PLATFORM_PLUGIN="a=x:Y,b=z:W",
        not_in_host=NO_VARIABLE,
    ),
    env(
        "variable-installed-name",
        "`SGLANG_PLATFORM_PLUGIN` uses the name of an installed platform",
        "right",
        "the platform 'dev'",
        SGLANG_PLATFORM_PLUGIN="dev=dev_cls:Platform",
        not_in_host=NO_VARIABLE,
    ),
    env(
        "variable-path",
        "`SGLANG_PLATFORM_PLUGIN` names a file",
        "ConfigurationError",
        "it must be `name=pkg.mod:Class`",
        (),
        SGLANG_PLATFORM_PLUGIN="dev=/opt/dev_cls.py:Platform",
        not_in_host=NO_VARIABLE,
    ),
    env(
        "on-error-blank",
        "`SGLANG_PLATFORM_ON_ERROR` is blank",
        "right",
        "the platform 'dev'",
        SGLANG_PLATFORM_ON_ERROR=" ",
        not_in_host=NO_VARIABLE,
    ),
    env(
        "on-error-case",
        "`SGLANG_PLATFORM_ON_ERROR` is in other case",
        "right",
        "the platform 'dev'",
        SGLANG_PLATFORM_ON_ERROR="WARN",
        not_in_host=NO_VARIABLE,
    ),
]
