"""The fused ops of the contract: importing any module of it makes all of them known by name."""

from sglang_platform.core.ops import described, fused_op

__all__ = ["described", "fused_op"]
