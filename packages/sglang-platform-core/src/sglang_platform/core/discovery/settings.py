"""Reads and validates the environment variables that control discovery and plugin loading."""

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
"""The location of a class: `pkg.mod:Class` or `pkg.mod.Class`."""


class DevelopmentPlatform(NamedTuple):
    """A platform named by variable, without a distribution."""

    name: str
    location: str


class Settings(NamedTuple):
    """The settings for resolving one kind of platform."""

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
    """Whether a failed plugin stops the launch: True unless SGLANG_PLATFORM_ON_ERROR is `warn`."""
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
    """The names in SGLANG_PLUGINS, or None if every general plugin may run."""
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
    """The platform's name and the location of its class. The name defaults to that of the class.

    In `a:b.C` the first part is a name, since a nested class is not a platform; in `a.b:C` and `a:C` it is a module.
    """
    name, equals, location = (part.strip() for part in value.partition("="))
    if equals:
        return name, location
    before, colon, after = (part.strip() for part in value.partition(":"))
    if colon and "." in after and "." not in before:
        return before, after
    return re.split("[.:]", value)[-1], value
