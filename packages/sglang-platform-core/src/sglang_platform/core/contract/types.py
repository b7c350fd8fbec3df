"""The small types that every part of the contract speaks.

Names and members are those of SGLang 0.5.23 (`sglang.srt.platforms.device_mixin`), so a vendor who knows one
knows the other. The host has enums of its own; a member is therefore compared by name, never by identity.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, TypeAlias

from sglang_platform.core.contract.pool_kinds import KINDS, KV_POOL_KINDS

__all__ = ["KV_POOL_KINDS", "CpuArchEnum", "DeviceCapability", "KVPoolKind", "PlatformEnum", "kv_pool_kind"]


class PlatformEnum(enum.Enum):
    """The kinds of platform the host knows. A vendor's own device is `OOT` (out of tree)."""

    CUDA = enum.auto()
    ROCM = enum.auto()
    CPU = enum.auto()
    XPU = enum.auto()
    MUSA = enum.auto()
    NPU = enum.auto()
    TPU = enum.auto()
    MPS = enum.auto()
    SAIL = enum.auto()
    OOT = enum.auto()
    UNSPECIFIED = enum.auto()


class CpuArchEnum(enum.Enum):
    """The processor family of the machine, which decides the native CPU kernels that can be loaded."""

    X86 = enum.auto()
    ARM = enum.auto()
    UNSPECIFIED = enum.auto()


class DeviceCapability(NamedTuple):
    """A device generation as `(major, minor)`, ordered as a tuple: `DeviceCapability(9, 0) >= (8, 9)`."""

    major: int
    minor: int

    def as_version_str(self) -> str:
        """`"9.0"` for `(9, 0)`."""
        return f"{self.major}.{self.minor}"

    def to_int(self) -> int:
        """`90` for `(9, 0)`.

        Raises ValueError where `minor` has more than one digit: `(9, 10)` and `(10, 0)` would both read 100.
        """
        if not 0 <= self.minor <= 9:
            raise ValueError(
                f"DeviceCapability({self.major}, {self.minor}) has no integer form: minor must be one digit "
                "(0 to 9). Compare the tuples instead."
            )
        return self.major * 10 + self.minor


KVPoolKind: TypeAlias = str
"""The name of a kind of KV pool: one of `KV_POOL_KINDS`."""


def kv_pool_kind(kind: str) -> KVPoolKind:
    """The kind of KV pool as the contract names it, also where it is given by an older name: `"nsa"` was `"dsa"` before
    SGLang 0.5.13.

    Whoever asks a platform for a pool passes the kind through here first, so that a platform only ever sees the names
    of `pool_kinds`. Raises ValueError for anything else.
    """
    for row in KINDS.values():
        if kind == row.name or kind in row.older_names:
            return row.name
    raise ValueError(f"{kind!r} is not a kind of KV pool; the kinds are {', '.join(KINDS)}")
