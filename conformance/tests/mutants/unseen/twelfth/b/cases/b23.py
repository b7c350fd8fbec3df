"""A hook AROUND SGLang's question for free memory logs what the original gives, and forgets to return it: the host gets
None.

For the user: the launch ends in an arithmetic error on None, far away from the plugin.
Follows: docs/hooks.md: a hook around its target that gives nothing, where the target gives a value, is `changed`.
level: contract
"""

import logging
from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import HookRegistry, HookType

_log = logging.getLogger(__name__)
TARGET = "sglang.srt.utils.common:get_available_gpu_memory"


def log_memory(original: Any, *args: Any, **kwargs: Any) -> Any:
    free = original(*args, **kwargs)
    _log.info("free: %.2f GiB", free)


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        HookRegistry.register(TARGET, log_memory, HookType.AROUND)
