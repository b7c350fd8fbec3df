"""The seed is mixed with the device's name by hash(), which Python salts anew in each process: the same seed gives other
random numbers in each process and after each restart.

For the user: a run with --random-seed cannot be repeated, and ranks of one group draw different tokens.
Follows: hash() of a text taken for stable.
level: contract
"""

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Platform(ReferencePlatform):
    @classmethod
    def seed_everything(cls, seed: int | None = None) -> None:
        if seed is None:
            return
        super().seed_everything(hash((cls.device_name, seed)) & 0xFFFFFFFF)
