"""General plugins: loaded once by our rules, and looked at for conflicts with each other.

    loading    which run, in which order         shared_parts    what two plugins have both set
    one_load   once per process                  together        which two plugins cannot be loaded together

Imports nothing heavy: `together` starts other processes, and is imported after a failure only.
"""

from sglang_platform.core.plugins.loading import (
    LoadedPlugin,
    has_begun,
    load_plugins,
    loaded_plugins,
    plugin_conflicts,
    reset,
    running_platform,
)
from sglang_platform.core.plugins.one_load import OneLoad, refuse_after_failure

__all__ = [
    "LoadedPlugin",
    "OneLoad",
    "has_begun",
    "load_plugins",
    "loaded_plugins",
    "plugin_conflicts",
    "refuse_after_failure",
    "reset",
    "running_platform",
]
