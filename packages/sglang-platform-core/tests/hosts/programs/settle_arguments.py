"""Settle several sets of server arguments, given as JSON, as a launcher does; tell for each what came of it."""

import json
import sys

import sglang.srt.platforms  # noqa: F401 - the launcher has it by the time it loads plugins
from sglang.srt.plugins import load_plugins
from sglang.srt.server_args import ServerArgs

load_plugins()
for arguments in json.loads(sys.argv[1]):
    try:
        record = ServerArgs(**arguments)
        settle = getattr(record, "resolve_once", None)
        if settle is not None:
            settle()
    except SystemExit as refusal:
        print(json.dumps({"refused": str(refusal)}))
    except Exception as error:  # noqa: BLE001 - the test is about which error it is
        print(json.dumps({"raised": f"{type(error).__name__}: {error}"}))
    else:
        print(json.dumps({"settled": True}))
