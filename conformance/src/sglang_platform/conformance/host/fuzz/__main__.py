"""`python -m sglang_platform.conformance.host.fuzz PLATFORM`: a campaign against one server, and its table."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.fuzz.campaign import Campaign, table
from sglang_platform.conformance.host.fuzz.server import arguments
from sglang_platform.conformance.host.server import ServerProcess
from sglang_platform.conformance.host.session import models_folder

_START_SECONDS = 900  # on a machine that may be busy


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("platform")
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="where the table is written as well")
    options = parser.parse_args()
    checkpoint = make_checkpoint(models_folder() / "llama", "llama")
    with ServerProcess(options.platform, arguments(checkpoint), seconds=_START_SECONDS) as server:
        outcome = Campaign(server, options.requests, options.seed).run()
        if outcome.dead:
            print(server.failed("ended"), *map(repr, outcome.last), sep="\n")
    print(table(outcome))
    print(f"{outcome.sent} requests, seed {options.seed}")
    print("the server", "ended" if outcome.dead else "lives")
    print("resident memory in MiB, after a tenth and at the end:", [round(one) for one in outcome.megabytes])
    print("held once quiet:", outcome.held or "nothing")
    print("the first answers come again:", len(set(outcome.first_answers)) == 1)
    for (path, status, words), request in outcome.failures.items():
        print(json.dumps({"path": path, "status": status, "words": words, "body": repr(request.body)}))
    if options.output:
        options.output.write_text(table(outcome) + "\n")
    return int(bool(outcome.dead or outcome.failures or outcome.held or len(set(outcome.first_answers)) != 1))


if __name__ == "__main__":
    sys.exit(main())
