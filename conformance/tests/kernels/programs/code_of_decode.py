"""The decode kernels of an architecture in machine code, as one line of JSON. Argument: the architecture."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from sglang_platform.conformance.kernels.decode_code import CASES, compiled


def main() -> None:
    told = {
        row.case: {
            "code": asdict(row.code),
            "loop": asdict(row.loop),
            "per_token": row.per_token,
            "predicted": {device: found.share for device, found in row.predicted.items()},
        }
        for row in compiled(sys.argv[1:], list(CASES))
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
