"""Healthy: properties in the place of attributes, and a device that is opened when its type is first asked for."""
from b_base import Base
from sglang_platform.core import PlatformCapabilities
from sglang_platform.example_oot.device import ExampleOOTDeviceMixin, open_device
from sglang_platform.example_oot.platform import ExampleOOTPlatform

class P(Base):
    def __init__(self, *args, **kwargs):
        super(ExampleOOTDeviceMixin, self).__init__(*args, **kwargs)
        self._type = None
    @property
    def device_type(self):
        if self._type is None:
            self._type = open_device()
        return self._type
    @property
    def device_name(self):
        return "acme"
    @property
    def capabilities(self):
        return PlatformCapabilities(graph_capture=True, piecewise_graph=True, fp8=True)
    @property
    def supported_page_sizes(self):
        return [1, 16, 64]
    @property
    def supported_kv_dtypes(self):
        return {"float32", "bfloat16", "float16"}
    @property
    def attention_features(self):
        return frozenset(ExampleOOTPlatform.attention_features) - {"fp8_kv"}
