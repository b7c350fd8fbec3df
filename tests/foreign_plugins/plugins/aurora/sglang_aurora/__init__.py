"""Aurora accelerators for SGLang: a platform written on SGLang's own classes."""

import os

__version__ = "1.4.0"


def activate():
    if os.environ.get("AURORA_VISIBLE_DEVICES") == "":
        return None
    return "sglang_aurora.platform.AuroraPlatform"
