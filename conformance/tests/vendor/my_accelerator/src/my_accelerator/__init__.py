"""My accelerator: a plugin for SGLang. Its memory is the machine's, its kernels are torch's."""

import logging
import threading
import time

from sglang_platform.core import platform_plugin

logging.basicConfig(level=logging.INFO, format="%(asctime)s my_accelerator %(message)s")
_log = logging.getLogger(__name__)


def _heartbeat():
    while True:
        _log.debug("the accelerator is alive")
        time.sleep(1.0)


@platform_plugin
def activate():
    threading.Thread(target=_heartbeat, name="my-accelerator-heartbeat", daemon=True).start()
    return "my_accelerator.platform:MyAcceleratorPlatform"
