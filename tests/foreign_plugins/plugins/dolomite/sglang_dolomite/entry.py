"""The entry point. A Dolomite card shows itself as a file."""

import os

PLATFORM = "sglang_dolomite.platform.DolomitePlatform"


def is_present() -> bool:
    return os.path.exists(os.environ.get("DOLOMITE_DEVICE", os.devnull))


def activate() -> str | None:
    return PLATFORM if is_present() else None
