"""`sglang-platform info`: the active platform, why it is the one, and the versions of everything."""

from __future__ import annotations

import logging
import os
import platform as python_platform
from typing import Any

import typer

from sglang_platform.core.cli.output import (
    FOUND_A_PROBLEM,
    NOT_UNDERSTOOD,
    JsonOption,
    console,
    print_json,
    print_refusal,
    show_slow,
    show_stages,
)
from sglang_platform.core.cli.plugin_argument import DiffusionOption, PluginArgument, named_or_exit
from sglang_platform.core.contract.version import CONTRACT_VERSION
from sglang_platform.core.discovery.apart import DecisionApart, ask_apart
from sglang_platform.core.discovery.kind import DIFFUSION, KINDS, SRT, PlatformKind, is_used
from sglang_platform.core.discovery.named import platform_named
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.installed.distributions import installed_version
from sglang_platform.core.plugins.together import load_launch

__all__ = ["info"]


def info(
    plugin: PluginArgument = None, diffusion: DiffusionOption = False, as_json: JsonOption = False
) -> None:
    """The platform this environment would serve on. Makes its object, in a process of its own.

    Where general plugins are installed, loads all of them together, as a launch does.

    Exit status 1: the platform or the launch is refused. 2: the plugin named is not installed, or has no platform.
    """
    named = named_or_exit(plugin, as_json)
    kinds = [kind for kind in KINDS if is_used(kind) or (diffusion and kind is DIFFUSION)]
    if plugin is not None and named is not None:
        own = [kind for kind in KINDS if any(record.group == kind.group for record in named.records)]
        kinds = [kind for kind in kinds if kind in own] or own or [SRT]
        try:
            for kind in kinds:
                os.environ[kind.variable] = platform_named(plugin, kind)
        except PlatformError as error:
            print_refusal(error, as_json)
            raise typer.Exit(NOT_UNDERSTOOD) from None
    try:
        with show_stages(as_json):
            asked = {kind: ask_apart(kind, "object") for kind in kinds}
            if SRT in asked and (refusal := asked[SRT].error) is not None:
                raise refusal
            logging.getLogger(__name__).info("loading the general plugins, in a process of their own")
            for outcome in map(load_launch, kinds):
                if outcome is not None and outcome.error is not None:
                    raise outcome.error
    except PlatformError as error:
        print_refusal(error, as_json)
        raise typer.Exit(FOUND_A_PROBLEM) from None
    document = _document(asked)
    if as_json:
        print_json(document)
    else:
        _print(document, asked)


def _print(document: dict[str, Any], asked: dict[PlatformKind, DecisionApart]) -> None:
    rows = [
        (f"diffusion {name}" if part == "diffusion_platform" else name, value)
        for part in ("platform", "diffusion_platform", "versions")
        for name, value in document.get(part, {}).items()
        if name != "problem"  # below the table, with its fix
    ]
    console().pairs((label.replace("_", " "), "-" if value is None else str(value)) for label, value in rows)
    for decision in asked.values():
        show_slow(decision)
    console().print("not looked at: metadata, versions, hooks, sources (`sglang-platform doctor`)")


def _document(asked: dict[PlatformKind, DecisionApart]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if SRT in asked:
        document["platform"] = _platform(asked[SRT])
    if DIFFUSION in asked:
        # A refusal concerns one runtime; doctor counts it as a problem.
        error = asked[DIFFUSION].error
        document["diffusion_platform"] = {"refused": str(error)} if error else _platform(asked[DIFFUSION])
    document["versions"] = {
        "core": installed_version("sglang-platform-core"),
        "contract": CONTRACT_VERSION,
        "sglang": installed_version("sglang"),
        "torch": installed_version("torch"),
        "python": python_platform.python_version(),
    }
    return document


def _platform(decision: DecisionApart) -> dict[str, Any]:
    origin, platform = decision.origin, decision.platform
    return {
        "plugin": origin.name if origin else None,
        "distribution": origin.distribution if origin else None,
        "distribution_version": origin.version if origin else None,
        "class": platform["class"],
        "device_name": platform["device_name"],
        "device_type": platform["device_type"],
        "why": decision.trace.outcome,
    }
