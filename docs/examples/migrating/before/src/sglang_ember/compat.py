"""What is taken from SGLang, with stand-ins, so that the plugin imports where SGLang is not."""

try:
    from sglang.srt.platforms.device_mixin import DeviceMixin, PlatformEnum
    from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform
except ImportError:

    class PlatformEnum:
        OOT = None

    class PlatformCapabilities:
        def __init__(self, **fields):
            vars(self).update(fields)

    class DeviceMixin:
        pass

    class SRTPlatform:
        pass


__all__ = ["DeviceMixin", "PlatformCapabilities", "PlatformEnum", "SRTPlatform"]
