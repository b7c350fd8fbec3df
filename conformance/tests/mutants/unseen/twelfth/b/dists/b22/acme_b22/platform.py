"""The platform of the b22 plugin: the reference device under a name of its own."""

from sglang_platform.conformance.reference.platform import ReferencePlatform


class AcmePlatform(ReferencePlatform):
    device_name = "acme_b22"
