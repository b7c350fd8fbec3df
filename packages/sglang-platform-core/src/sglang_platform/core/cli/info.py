"""`sglang-platform info`: the active platform, why it is the one, and the versions of everything."""

from __future__ import annotations

import logging
import platform as python_platform
from collections.abc import Sequence
from typing import Any

import typer

from sglang_platform.core.cli.output import (
    FOUND_A_PROBLEM,
    NOT_UNDERSTOOD,
    JsonOption,
    console,
    print_json,
    print_refusal,
    quiet_plugins,
    show_stages,
)
from sglang_platform.core.cli.plugin_argument import DiffusionOption, PluginArgument, named_or_exit, serve_on
from sglang_platform.core.contract.completeness import incomplete
from sglang_platform.core.contract.version import CONTRACT_VERSION
from sglang_platform.core.discovery.kind import DIFFUSION, KINDS, SRT, PlatformKind, is_used
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.installed.distributions import installed_version
from sglang_platform.core.plugins.together import load_launch

__all__ = ["info"]


def info(
    plugin: PluginArgument = None, diffusion: DiffusionOption = False, as_json: JsonOption = False
) -> None:
    """The platform this environment would serve on. Imports the platform's class, and what that imports.

    Where general plugins are installed, loads all of them in a process of their own, as a launch does.

    Exit status 1: the platform or the launch is refused. 2: the plugin named is not installed, or has no platform.
    """
    named = named_or_exit(plugin, as_json)
    kinds = [kind for kind in KINDS if is_used(kind) or (diffusion and kind is DIFFUSION)]
    if named is not None:
        own = [kind for kind in KINDS if any(record.group == kind.group for record in named.records)]
        kinds = [kind for kind in kinds if kind in own] or own or [SRT]
    try:
        for kind in kinds if named is not None else ():
            serve_on(named, kind)
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(NOT_UNDERSTOOD) from None
    try:
        with quiet_plugins(), show_stages(as_json):
            document = _document(kinds)
            document["conflicts"] = _conflicts()
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(FOUND_A_PROBLEM) from None
    if as_json:
        print_json(document)
        return
    rows = [
        (f"diffusion {name}" if part == "diffusion_platform" else name, value)
        for part in ("platform", "diffusion_platform", "versions")
        for name, value in document.get(part, {}).items()
    ]
    rows += [("conflict", conflict) for conflict in document["conflicts"]]
    console().pairs((label.replace("_", " "), "-" if value is None else str(value)) for label, value in rows)


def _document(kinds: Sequence[PlatformKind]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if SRT in kinds:
        document["platform"] = _platform(SRT)
    if DIFFUSION in kinds:
        try:
            document["diffusion_platform"] = _platform(DIFFUSION)
        except PlatformError as error:  # it concerns one runtime; doctor counts it as a problem
            document["diffusion_platform"] = {"refused": str(error)}
    document["versions"] = {
        "core": installed_version("sglang-platform-core"),
        "contract": CONTRACT_VERSION,
        "sglang": installed_version("sglang"),
        "torch": installed_version("torch"),
        "python": python_platform.python_version(),
    }
    return document


def _conflicts() -> list[str]:
    """What a launch warns of once all plugins are loaded. Raises what it is refused with."""
    logging.getLogger(__name__).info("loading the general plugins, in a process of their own")
    outcome = load_launch(SRT)
    if outcome is None:
        return []
    if outcome.error is not None:
        raise outcome.error
    return [str(conflict) for conflict in outcome.conflicts]


def _platform(kind: PlatformKind) -> dict[str, Any]:
    logging.getLogger(__name__).info("asking the plugins, and importing the platform's class")
    platform, process = lazy_platform(kind)
    device_name, device_type = platform.device_name, platform.device_type
    decision = process.decide()
    origin = decision.origin
    cls = type(platform)
    error = decision.platform_class and incomplete(decision.platform_class, platform, origin)
    if error:
        raise error
    return {
        "plugin": origin.name if origin else None,
        "distribution": origin.distribution if origin else None,
        "distribution_version": origin.version if origin else None,
        "class": f"{cls.__module__}.{cls.__qualname__}",
        "device_name": device_name,
        "device_type": device_type,
        "why": decision.trace.outcome,
    }
