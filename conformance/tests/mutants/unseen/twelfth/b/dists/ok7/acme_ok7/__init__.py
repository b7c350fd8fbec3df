"""The probe of the acme_ok7 plugin, which does more than most: it reads what the system says, logs it, and tells what to do."""

import logging
import os
from pathlib import Path

from sglang_platform.core import PlatformUnavailable, platform_plugin

_log = logging.getLogger(__name__)


@platform_plugin()
def activate() -> str | None:
    """The device is here where ACME_OK7=1."""
    if not Path("/proc/meminfo").is_file():
        return None
    if os.environ.get("ACME_OK7") != "1":
        raise PlatformUnavailable("there is no Acme card (ACME_OK7 is not 1)")
    _log.debug("one Acme card, driver 9.1")
    return "acme_ok7.platform:Platform"
