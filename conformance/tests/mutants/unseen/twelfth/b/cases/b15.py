"""The memory figures are asked of the driver once and kept: free memory stays what it was at the first question.

For the user: SGLang asks before and after it loads the weights; the difference is zero, and the KV cache is sized as if the
weights were not there: out of memory.
Follows: @lru_cache on a driver query.
level: contract
"""

from sglang_platform.conformance.reference.platform import ReferencePlatform

_asked: dict[int, tuple[int, int]] = {}


class Platform(ReferencePlatform):
    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        if device_id not in _asked:
            _asked[device_id] = super().get_available_memory(device_id)
        return _asked[device_id]
