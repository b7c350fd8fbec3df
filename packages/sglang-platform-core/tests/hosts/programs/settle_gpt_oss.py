"""Settle the arguments of a gpt-oss model on the example, with its attention as it is and without sinks."""

import json
import sys

import sglang.srt.platforms  # noqa: F401 - the launcher has it by the time it loads plugins
from sglang.srt.plugins import load_plugins
from sglang.srt.server_args import ServerArgs

from sglang_platform.core import current_platform
from sglang_platform.core.sglang.served_model import resolved

load_plugins()
for features in (current_platform.attention_features, ("mha", "sliding_window")):
    type(current_platform).attention_features = features
    record = ServerArgs(model_path=sys.argv[1])
    try:
        settle = getattr(record, "resolve_once", None)
        if settle is not None:
            settle()
    except AssertionError as error:
        print(json.dumps({"refused": str(error)}))
    else:
        print(json.dumps({"attention": resolved(record).attention_backend}))
