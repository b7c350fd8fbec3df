"""Level 2 mutants: platforms that cannot be made."""

from __future__ import annotations

from mutant import mutant

from sglang_platform.core import DeviceMixin, PlatformEnum, SRTPlatform


class Device(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "mutant"


@mutant(
    check="contract.platform_is_created",
    defect="__init__ asks for a driver that is not loaded, and raises",
    says="libdriver.so",
)
class RaisesInInit(SRTPlatform, Device):
    def __init__(self) -> None:
        raise OSError("libdriver.so: cannot open shared object file")
