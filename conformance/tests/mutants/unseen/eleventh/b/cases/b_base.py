"""The unbroken example by another name: what every case below derives from."""
from sglang_platform.example_oot import op_calls
from sglang_platform.example_oot.platform import DISPATCH_KEY, ExampleOOTPlatform

class Base(ExampleOOTPlatform):
    _forwards = {}
    def init_backend(self):
        super().init_backend()
        op_calls.register(self._forwards, DISPATCH_KEY)
