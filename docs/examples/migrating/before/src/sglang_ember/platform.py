"""The platform: what SGLang asks for when it builds an engine."""

from .compat import *
from .device import EmberDevice


class EmberPlatform(EmberDevice, SRTPlatform):
    capabilities = PlatformCapabilities()

    def apply_server_args_defaults(self, server_args):
        server_args.sampling_backend = "pytorch"

    def get_default_attention_backend(self):
        return "ember"

    def get_kv_pool_cls(self, *, kind):
        if kind != "mha":
            return None
        from .pools import EmberPool

        return EmberPool

    def get_dispatch_key_name(self):
        return "ember"

    def get_compile_backend(self, mode=None):
        return "eager"
