"""Resolves the launches of `gpu_engine.py` on a pretended card; a line for each that is refused, status 1.

python benchmarks/gpu_rehearsal/launches.py MODEL
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import gpu_engine

from tools.pretended_cards.card import CARDS, install, pretend

install(())
pretend(CARDS["sm_90"])
os.environ["SGLANG_PLATFORM_PLUGIN"] = "cuda=sglang_platform.cuda.platform:CudaSRTPlatform"


def resolved(contender: str, cache: str) -> Any:
    """The server arguments as SGLang and our packages settle them."""
    from sglang.srt.server_args import ServerArgs

    from sglang_platform.core.sglang.served_model import resolved

    options = argparse.Namespace(
        contender=contender, cache=cache, pretend=False, model=Path(sys.argv[1]), batches=[1, 32, 256],
        context=1024, new_tokens=128,
    )  # fmt: skip
    os.environ["SGLANG_PLATFORM_PARTS"] = gpu_engine.PARTS[contender]
    record = ServerArgs(**gpu_engine.arguments(options))
    settle = getattr(record, "resolve_once", None)
    if settle is not None:
        settle()
    return resolved(record)


failed = 0
for contender in gpu_engine.PARTS:
    for cache in ("", "fp8_e4m3"):
        name = f"{contender}, {cache or 'plain'} cache"
        try:
            view = resolved(contender, cache)
        except Exception as error:  # noqa: BLE001 - each failure is an answer
            failed = 1
            print(f"{name}: {type(error).__name__}: {error}")
        else:
            print(f"{name}: {view.attention_backend}, {view.sampling_backend}, pages of {view.page_size}")
sys.exit(failed)
