"""Platforms defined, asked and refused: which heavy modules did that need?"""

import logging
import sys

from sglang_platform.core.contract import DeviceMixin, MMPlatform, PlatformEnum, SRTPlatform

logging.disable()  # an older name is told in the log


class Device(DeviceMixin):
    _enum = PlatformEnum.OOT


class Platform(SRTPlatform, Device):
    def supports_fp8(self) -> bool:
        return True


class MM(MMPlatform, Device):
    pass


print_nothing = (Platform().is_out_of_tree(), Platform().capabilities.fp8, repr(MM()))
try:

    class Bad(Platform):
        def get_graph_runner(self) -> None: ...
except TypeError:
    pass
else:
    raise SystemExit("not refused")
print([name for name in ("torch", "numpy", "sglang", "triton") if name in sys.modules])
