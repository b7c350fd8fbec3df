"""What the plugin takes from SGLang, with stand-ins so that the documentation builds without it."""

try:
    from sglang.srt.platforms.device_mixin import DeviceCapability, DeviceMixin, PlatformEnum
    from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform

    HAS_SGLANG = True
except ImportError:
    HAS_SGLANG = False

    class PlatformEnum:
        OOT = None

    class DeviceCapability(tuple):
        pass

    class DeviceMixin:
        pass

    class PlatformCapabilities:
        def __init__(self, **fields):
            vars(self).update(fields)

    class SRTPlatform:
        capabilities = None


__all__ = [
    "HAS_SGLANG",
    "DeviceCapability",
    "DeviceMixin",
    "PlatformCapabilities",
    "PlatformEnum",
    "SRTPlatform",
]
