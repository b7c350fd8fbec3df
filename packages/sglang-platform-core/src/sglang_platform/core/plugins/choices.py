"""The fix for two plugins that exclude each other: which command or variable keeps one of them."""

from __future__ import annotations

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.kind import KINDS, installed_plugins
from sglang_platform.core.discovery.settings import PLUGINS_VARIABLE, plugin_filter
from sglang_platform.core.errors import PluginOrigin

__all__ = ["choose_one"]


def choose_one(earlier: PluginOrigin, later: PluginOrigin) -> str:
    """How to go on with one of two plugins: uninstall the other, or leave a general plugin out by the variable."""
    distributions = dict.fromkeys(filter(None, (earlier.distribution, later.distribution)))
    fix = " or ".join(f"pip uninstall {distribution}" for distribution in distributions)
    if len(distributions) == 1:
        fix = f"correct {next(iter(distributions))}, which brings both"
    general = {record.origin for kind in KINDS for record in scan.records(kind.general_group)}
    left_out = next((origin for origin in (later, earlier) if origin in general), None)
    if left_out is None:
        return fix
    named = plugin_filter()
    names = [record.name for record in installed_plugins() if record.name != left_out.name]
    kept = dict.fromkeys([OWN_PLUGIN, *(name for name in names if named is None or name in named)])
    return f"{fix}; or go on without {left_out.name}: {PLUGINS_VARIABLE}={','.join(kept)}"
