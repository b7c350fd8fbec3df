"""The platform of the b21 plugin: the reference device under a name of its own."""

from sglang_platform.conformance.reference.platform import ReferencePlatform


class AcmePlatform(ReferencePlatform):
    device_name = "acme_b21"
