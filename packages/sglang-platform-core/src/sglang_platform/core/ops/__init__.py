"""The fused ops of the contract: importing any part of it knows them all by name."""

from sglang_platform.core.ops import described, fused_op

__all__ = ["described", "fused_op"]
