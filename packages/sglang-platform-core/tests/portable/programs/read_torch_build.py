"""The build of torch as it is read, and whether reading imported it."""

import json
import sys

if "--without-site-packages" in sys.argv:
    sys.path = [path for path in sys.path if "site-packages" not in path]

from sglang_platform.core.portable.torch.build import torch_build

print(json.dumps([torch_build(), "torch" in sys.modules]))
