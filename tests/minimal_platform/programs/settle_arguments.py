"""What SGLang asks of a platform before it starts a worker, and what a worker asks first: without an engine."""

import json
import sys

import torch
from sglang.srt.plugins import load_plugins

load_plugins()

from sglang.srt.arg_groups.overrides import resolved_view  # noqa: E402 - SGLang loads plugins before anything else
from sglang.srt.platforms import current_platform  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402
from sglang.srt.utils.common import get_available_gpu_memory  # noqa: E402

asked = {"page_size": 16, **json.loads(sys.argv[2])}
arguments = ServerArgs(model_path=sys.argv[1], dtype="float32", log_level="error", **asked)
arguments.resolve_once()
settled = resolved_view(arguments)
current_platform.init_backend()
compiled = torch.compile(lambda x: x + 1)(torch.ones(2, device=settled.device))
print(
    json.dumps(
        {
            "device": settled.device,
            "attention": settled.attention_backend,
            "collectives": current_platform.get_torch_distributed_backend_str(),
            "sampling": settled.sampling_backend,
            "compiled": compiled.tolist(),
            "free": get_available_gpu_memory(settled.device, 0) > 0,
            "index": str(current_platform.get_device(0)),
        }
    )
)
