"""The environment variables that steer discovery and plugin loading, read and checked in one place."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from sglang_platform.core.discovery.kind import SRT, PlatformKind
from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.spelling import nearest

__all__ = [
    "LOCATION",
    "ON_ERROR_VARIABLE",
    "PLUGINS_VARIABLE",
    "DevelopmentPlatform",
    "Settings",
    "plugin_filter",
    "read_settings",
    "stop_on_error",
]

ON_ERROR_VARIABLE = "SGLANG_PLATFORM_ON_ERROR"
PLUGINS_VARIABLE = "SGLANG_PLUGINS"

LOCATION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*(\.[^\W\d]\w*)*)?")
"""Where a class is: `pkg.mod:Class` or `pkg.mod.Class`."""


class DevelopmentPlatform(NamedTuple):
    """A platform named by variable, without a distribution."""

    name: str
    location: str


class Settings(NamedTuple):
    """What the variables ask of the resolution of one kind of platform."""

    platform: str | None
    """The name of the platform to use; None: ask every plugin."""

    development: DevelopmentPlatform | None
    stop_on_error: bool


def read_settings(kind: PlatformKind = SRT, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. Raises ConfigurationError on a value that cannot be used."""
    environ = os.environ if environ is None else environ
    platform = environ.get(kind.variable, "").strip() or None
    development = _development_platform(kind, environ)
    if platform and development and platform != development.name:
        raise ConfigurationError(
            f"{kind.variable}={platform!r} and {kind.development_variable} name two platforms",
            why=f"{kind.development_variable} brings {development.name!r}, which would not be used",
            fix=f"unset one of them, or set {kind.variable}={development.name}",
        )
    return Settings(platform, development, stop_on_error(environ))


def stop_on_error(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a plugin that failed stops the launch: yes, unless SGLANG_PLATFORM_ON_ERROR is `warn`."""
    environ = os.environ if environ is None else environ
    value = environ.get(ON_ERROR_VARIABLE, "").strip()
    if value.lower() in ("", "error", "warn"):
        return value.lower() != "warn"
    meant = nearest(value, ("error", "warn"))
    raise ConfigurationError(
        f"{ON_ERROR_VARIABLE}={value!r} is no error policy",
        why="the policies are 'error' (the default: a plugin that failed stops the launch) and 'warn' (go on)",
        fix=f"set {ON_ERROR_VARIABLE}={meant}"
        if meant
        else f"unset {ON_ERROR_VARIABLE}, or set one of the two",
    )


def plugin_filter(environ: Mapping[str, str] | None = None) -> tuple[str, ...] | None:
    """The names in SGLANG_PLUGINS, or None where every general plugin may run."""
    environ = os.environ if environ is None else environ
    value = environ.get(PLUGINS_VARIABLE, "")
    if not value:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not names:
        raise ConfigurationError(
            f"{PLUGINS_VARIABLE}={value!r} names no plugin",
            why="set as it is, it would keep every general plugin out",
            fix=f"unset {PLUGINS_VARIABLE}, or name plugins in it, separated by commas",
        )
    return names


def _development_platform(kind: PlatformKind, environ: Mapping[str, str]) -> DevelopmentPlatform | None:
    value = environ.get(kind.development_variable, "").strip()
    if not value:
        return None
    name, location = _name_and_location(value)
    if not name or not LOCATION.fullmatch(location) or not {".", ":"} & set(location):
        raise ConfigurationError(
            f"{kind.development_variable}={value!r} cannot be read",
            why="it must be `name=pkg.mod:Class`, `name:pkg.mod.Class`, `pkg.mod:Class` or `pkg.mod.Class`, where Class"
            " is the platform class",
            fix=f"set for example {kind.development_variable}=my_device=my_package.platform:MyPlatform",
        )
    return DevelopmentPlatform(name, location)


def _name_and_location(value: str) -> tuple[str, str]:
    """The platform's name and where its class is. Without a name, the class's own is taken.

    Of `a:b.C` the first part is a name, since a class in a class is no platform; `a.b:C` and `a:C` name a module.
    """
    name, equals, location = (part.strip() for part in value.partition("="))
    if equals:
        return name, location
    before, colon, after = (part.strip() for part in value.partition(":"))
    if colon and "." in after and "." not in before:
        return before, after
    return re.split("[.:]", value)[-1], value
