"""Somebody has taken SGLang's plugins for loaded before the platform was chosen."""

import sglang.srt.plugins

sglang.srt.plugins._plugins_loaded = True
import sglang.srt.server_args  # noqa: E402
