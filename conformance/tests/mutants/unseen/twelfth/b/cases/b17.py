"""Where the block of reindex_device_id() raises, the restriction stays: the environment is put back behind the yield, not in
a finally.

For the user: after one worker failed to start, the launcher and all that it starts see one device only, and it is the wrong
one.
Follows: @contextmanager without try/finally.
level: contract
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from sglang_platform.conformance.reference.platform import ReferencePlatform

_VISIBLE = "REFERENCE_VISIBLE_DEVICES"


class Platform(ReferencePlatform):
    def get_device_uuid(self, device_id: int = 0) -> str:
        shown = [int(one) for one in os.environ.get(_VISIBLE, "").split(",") if one]
        return super().get_device_uuid(shown[device_id] if device_id < len(shown) else device_id)

    @contextmanager
    def reindex_device_id(self, device_id: int) -> Iterator[int]:
        before = os.environ.get(_VISIBLE)
        os.environ[_VISIBLE] = str(device_id)
        yield 0
        if before is None:
            del os.environ[_VISIBLE]
        else:
            os.environ[_VISIBLE] = before
