"""inference_mode() answers one shared context object. torch's keeps its guard on the object, so entering it a second time
inside itself drops the outer guard: the inner block runs without inference mode, and after both the thread stays in it.

For the user: after a nested call (a draft model inside the target's step) gradients are recorded in the inner part, and the
thread's later work outside fails with "Inference tensors cannot be saved for backward" or the like.
Follows: context managers that are not re-entrant, made once "to save the allocation".
level: contract
"""

from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform

_shared: list[Any] = []


class Platform(ReferencePlatform):
    @classmethod
    def inference_mode(cls) -> Any:
        if not _shared:
            _shared.append(super().inference_mode())
        return _shared[0]
