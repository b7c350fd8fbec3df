"""Imports what a serving process imports, on a pretended card; a line for each module that fails, status 1."""

import importlib
import os
import sys

from tools.pretended_cards.card import CARDS, install, pretend
from tools.pretended_cards.survey import MODULES

install(())
pretend(CARDS["sm_90"])
os.environ["SGLANG_PLATFORM_PLUGIN"] = "cuda=sglang_platform.cuda.platform:CudaSRTPlatform"
ALSO = ("sglang.srt.managers.detokenizer_manager", "sglang_platform.conformance.host.worker")
GRAMMARS = "sglang.srt.constrained."

failed = 0
for name in (*MODULES, *ALSO):
    try:
        if not name.startswith(GRAMMARS):
            importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - each failure is an answer
        failed = 1
        print(f"{name} does not import: {type(error).__name__}: {error}")
sys.exit(failed)
