"""Hold memory of a device until the standard input is closed, as another server on the same device does.

Given: `size` in bytes; `device_type`; `name`, `location`, `host` of the platform, where the device is not the CPU.
Told: `held`, the bytes.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
from typing import Any

__all__: list[str] = []

# Imports inside functions: memory of the machine is held without torch, in a fraction of the time.


def hold(given: dict[str, Any]) -> tuple[Any, int]:
    """Memory that is written to, and its size in bytes."""
    size = given["size"]
    if given["device_type"] == "cpu":
        pages = mmap.mmap(-1, size)
        pages.write(b"7" * size)
        return pages, size
    import torch

    from sglang_platform.conformance.subject import Subject

    subject = Subject(given["name"], given["host"], location=given["location"])
    subject.platform.set_device(subject.device)
    tensor = torch.full((size,), 7, dtype=torch.uint8, device=subject.device)
    subject.synchronize()
    return tensor, tensor.numel()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    held, size = hold(json.loads(sys.argv[1]))
    answers.write(json.dumps({"held": size}) + "\n")
    answers.flush()
    sys.stdin.read()
    del held
    os._exit(0)  # threads that the plugin left running must not keep the probe


if __name__ == "__main__":
    main()
