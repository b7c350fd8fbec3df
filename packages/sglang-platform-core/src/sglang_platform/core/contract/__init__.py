"""The platform contract: what a vendor implements and a host calls. Importing it imports neither torch nor
sglang."""

from __future__ import annotations

from sglang_platform.core.contract.attention_features import ATTENTION_FEATURES
from sglang_platform.core.contract.capabilities import PlatformCapabilities
from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.contract.members import public_names
from sglang_platform.core.contract.mm import MMPlatform
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.contract.types import (
    KV_POOL_KINDS,
    CpuArchEnum,
    DeviceCapability,
    KVPoolKind,
    PlatformEnum,
    kv_pool_kind,
)
from sglang_platform.core.contract.version import CONTRACT_VERSION

__all__ = [
    "ATTENTION_FEATURES",
    "CONTRACT_VERSION",
    "KV_POOL_KINDS",
    "CpuArchEnum",
    "DeviceCapability",
    "DeviceMixin",
    "KVPoolKind",
    "MMPlatform",
    "PlatformCapabilities",
    "PlatformEnum",
    "SRTPlatform",
    "kv_pool_kind",
    "public_names",
]
