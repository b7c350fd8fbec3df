"""A platform on the mixin: is torch imported by asking it what it is, and the device initialised by using it?"""

import sys

from sglang_platform.core.contract import SRTPlatform
from sglang_platform.core.portable.torch.device import TorchDeviceMixin

platform = type("P", (SRTPlatform, TorchDeviceMixin), {"device_type": "cuda"})()
platform.is_pin_memory_available()
platform.get_torch_distributed_backend_str()
repr(platform)
print("torch" in sys.modules)
platform.get_device(1)
platform.empty_cache()
platform.synchronize()
platform.seed_everything(3)
platform.get_torch_profiler_activity()
import torch  # noqa: E402 - not before the first answer

print(torch.cuda.is_initialized())
