"""A client of a server: it has no use for plugins."""

import sglang
import sglang.srt.utils  # noqa: F401

from sglang_platform.core.plugins import loaded_plugins

assert loaded_plugins() == ()
