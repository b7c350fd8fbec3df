"""Come to the platform as a worker of the host does, call its `init_backend()` twice, and tell what that left behind.

Given: `name`, `location`, `host`. Told: `changes` by group (`traces.py`) after the first call; `answered`: what the
calls answered; `raised`; `again`: fused ops that a second call registered otherwise.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from sglang_platform.conformance.probes.processes import look
from sglang_platform.conformance.probes.traces import TRACES, changes, read_all

__all__: list[str] = []

# Imports inside functions: core comes after the platform, as in a process of the host (`processes.py`).


def main() -> None:
    given = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ["SGLANG_PLATFORM"] = given["name"]
    if given.get("location"):
        os.environ["SGLANG_PLATFORM_PLUGIN"] = f"{given['name']}={given['location']}"
    else:
        os.environ.pop("SGLANG_PLATFORM_PLUGIN", None)
    answers.write(json.dumps(_told(given), default=str) + "\n")
    answers.flush()
    os._exit(0)


def _told(given: dict[str, Any]) -> dict[str, Any]:
    import torch  # noqa: F401 - a worker has it

    look(given)
    platform = _platform(given["host"])
    groups = {trace.group for trace in TRACES}
    before = read_all(groups)
    told: dict[str, Any] = {}
    try:
        told["answered"] = [repr(platform.init_backend())]
        told["changes"] = changes(before, read_all(groups))
        first = _ops(platform)
        told["call"] = "the second"
        told["answered"].append(repr(platform.init_backend()))
        told["again"] = sorted(set(_ops(platform)) ^ set(first))
    except BaseException as error:  # noqa: BLE001 - told to the check
        told["raised"] = f"{type(error).__name__}: {error}"
        told["trace"] = traceback.format_exc()
    return told


def _platform(host: str) -> Any:
    if host == "sglang":
        from sglang_platform.conformance.host.current import current_platform as platform_of_host

        return platform_of_host()
    from sglang_platform.core.discovery.current import current_platform

    return current_platform


def _ops(platform: Any) -> list[str]:
    from sglang_platform.core.ops.fused_op import FusedOp

    return [f"{one.op_cls.op} of {one.key}" for one in FusedOp.registered(platform.get_dispatch_key_name())]


if __name__ == "__main__":
    main()
