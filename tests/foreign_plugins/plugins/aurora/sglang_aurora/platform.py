"""The platform: what SGLang asks for when it builds an engine."""

from .compat import *
from .device import AuroraDeviceMixin
from .env import read_flag


class AuroraPlatform(AuroraDeviceMixin, SRTPlatform):
    supported_quantization = ["w8a8_int8", "aurora_w4"]
    capabilities = PlatformCapabilities(graph_capture=True)

    def apply_server_args_defaults(self, server_args) -> None:
        if server_args.page_size is None:
            server_args.page_size = 64

    def init_backend(self) -> None:
        if read_flag("AURORA_WARM_UP"):
            self.warm_up()

    def warm_up(self):
        self.synchronize()

    def get_default_attention_backend(self) -> str:
        return "aurora"

    def get_graph_runner_cls(self):
        from .graph import AuroraGraphRunner

        return AuroraGraphRunner

    def get_kv_pool_cls(self, *, kind):
        if kind != "mha":
            return None
        from .pools import AuroraMHATokenToKVPool

        return AuroraMHATokenToKVPool

    def get_paged_allocator_cls(self):
        from .allocator import AuroraPagedAllocator

        return AuroraPagedAllocator

    def get_quantization_config(self, quantization):
        if quantization != "aurora_w4":
            return None
        from .quantization import AuroraW4Config

        return AuroraW4Config

    def get_dispatch_key_name(self) -> str:
        return "aurora"

    def get_group_coordinator_device(self, local_rank):
        return self.get_device(local_rank)

    def post_load_model(self, model) -> None:
        model.requires_grad_(False)
