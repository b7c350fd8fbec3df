"""The process that holds one diffusion server, makes pictures and says what it ran on. Run by `diffusion.generate`.

Standard input: one JSON object. The answer goes into the file that it names, since the server prints to both outputs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

__all__: list[str] = []


def _identity(platform: Any) -> dict[str, Any]:
    names = ("get_device_name", "get_device_uuid", "get_device_total_memory")
    found = {"class": type(platform).__qualname__, "device_name": platform.device_name}
    found["device_type"] = platform.device_type
    return {**found, **{name: getattr(platform, name)() for name in names}}


def _main() -> None:
    request = json.loads(sys.stdin.read())
    from sglang.multimodal_gen import DiffGenerator

    generator = DiffGenerator.from_pretrained(**request["server"])
    try:
        result = generator.generate(sampling_params_kwargs=request["sampling"])
    finally:
        generator.shutdown()
    if result is None:
        raise SystemExit("the diffusion runtime made no picture; its reason is above")
    from sglang.multimodal_gen.runtime.platforms import current_platform
    from sglang.srt.platforms import current_platform as srt_platform

    answer = {
        "picture": result.output_file_path,
        "diffusion": _identity(current_platform),
        "llm_device": {"device_name": srt_platform.device_name, "device_type": srt_platform.device_type},
    }
    Path(request["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    # Spawned children import this file again as __mp_main__; the server must start in the main process only.
    sys.path = [
        entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent
    ]
    _main()
