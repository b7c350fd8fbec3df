"""What SGLang asks of a platform before it starts a worker, and what a worker asks first: without an engine."""

import json
import sys

from sglang.srt.plugins import load_plugins

load_plugins()

from sglang.srt.arg_groups.overrides import resolved_view  # noqa: E402 - SGLang loads plugins before anything else
from sglang.srt.platforms import current_platform  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402
from sglang.srt.utils.common import get_available_gpu_memory  # noqa: E402

arguments = ServerArgs(model_path=sys.argv[1], page_size=16, dtype="float32", log_level="error")
arguments.resolve_once()
settled = resolved_view(arguments)
current_platform.init_backend()
print(
    json.dumps(
        {
            "device": settled.device,
            "attention": settled.attention_backend,
            "collectives": current_platform.get_torch_distributed_backend_str(),
            "sampling": settled.sampling_backend,
            "free": get_available_gpu_memory(settled.device, 0) > 0,
            "index": str(current_platform.get_device(0)),
        }
    )
)
