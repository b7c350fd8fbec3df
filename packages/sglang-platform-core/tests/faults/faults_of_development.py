"""Faults of `SGLANG_PLATFORM_PLUGIN`, which names a platform class that no distribution brings."""

from __future__ import annotations

from fault_definition import Fault, chosen_fault, platform

__all__ = ["FAULTS"]

MINE = """
from framework import SRTPlatform
class Mine(SRTPlatform): device_name = 'mine'
class Other: ...
"""


def _fault(name: str, title: str, value: str, ends: str, *says: str, **rest: object) -> Fault:
    return chosen_fault(
        name,
        title,
        ends,
        *says,
        environment={"SGLANG_PLATFORM_PLUGIN": value},
        modules={"mine": MINE},
        not_in_host="no such variable",
        **rest,
    )


FAULTS = [
    _fault(
        "variable-module-missing",
        "`SGLANG_PLATFORM_PLUGIN` names a module that does not exist",
        "dev=mime:Mine",
        "PluginFailed",
        "the platform class mime:Mine of plugin 'dev' could not be loaded",
        "ModuleNotFoundError: No module named 'mime'",
        plugin="dev",
    ),
    _fault(
        "variable-class-missing",
        "`SGLANG_PLATFORM_PLUGIN` names a class that its module lacks",
        "dev=mine:Mime",
        "PluginFailed",
        "the platform class mine:Mime of plugin 'dev' could not be loaded",
        "AttributeError: module 'mine' has no attribute 'Mime'",
        plugin="dev",
    ),
    _fault(
        "variable-no-platform",
        "`SGLANG_PLATFORM_PLUGIN` names a class that is no platform",
        "dev=mine:Other",
        "NotAPlatformClass",
        "plugin 'dev' names mine:Other, which is not a platform class",
        plugin="dev",
    ),
    _fault(
        "variable-blank",
        "`SGLANG_PLATFORM_PLUGIN` is blank, and a platform is installed",
        "  ",
        "right",
        seen="the platform 'dev'",
        distributions=(platform("dev"),),
    ),
]
