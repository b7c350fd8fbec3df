"""Settles SGLang's server arguments for the example device, without a worker: which launches are refused, and how."""

import importlib
import json
import sys

from sglang.srt.plugins import load_plugins

load_plugins()

from sglang.srt.server_args import ServerArgs  # noqa: E402 -- after the plugins, as in SGLang's own launcher

from sglang_platform.core.sglang.versions import facts  # noqa: E402

answers = []
for arguments in json.loads(sys.argv[1]):
    try:
        record = ServerArgs(**arguments)
        module, name = facts().finished_arguments.split(":")
        if "." not in name:  # a function of its own; before, the record settles itself when it is made
            getattr(importlib.import_module(module), name)(record)
        answers.append(None)
    except SystemExit as refusal:
        answers.append(str(refusal))
print(json.dumps(answers))
