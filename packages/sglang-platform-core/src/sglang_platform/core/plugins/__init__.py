"""General plugins: loaded once by our rules.

    loading    which run, in which order         together    all that a launch loads, in another process
    one_load   once per process                  trial       the program of that process

Imports nothing heavy: `together` starts another process, and is imported by commands only.
"""

from sglang_platform.core.plugins.loading import (
    LoadedPlugin,
    has_begun,
    load_plugins,
    loaded_plugins,
    reset,
)
from sglang_platform.core.plugins.one_load import OneLoad, refuse_after_failure

__all__ = [
    "LoadedPlugin",
    "OneLoad",
    "has_begun",
    "load_plugins",
    "loaded_plugins",
    "refuse_after_failure",
    "reset",
]
