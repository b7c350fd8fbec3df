"""Checks of constructor arguments, shared by pools and allocators."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import torch

from sglang_platform.core.errors import PlatformError

__all__ = ["require_at_least", "require_dtype"]


def require_at_least(owner: object, minimum: int, **values: Any) -> None:
    """Check that every value is an integer of at least `minimum`; the error names the class and the argument."""
    for name, value in values.items():
        try:
            number = operator.index(value)
        except TypeError:
            raise PlatformError(
                f"{type(owner).__name__}: {name} is {value!r}",
                why=f"{name} is a count and must be an integer",
            ) from None
        if number < minimum:
            raise PlatformError(
                f"{type(owner).__name__}: {name} is {number}",
                why=f"{name} must be at least {minimum}",
            )


def require_dtype(owner: object, dtype: Any, supported: Collection[torch.dtype]) -> None:
    """Check that a pool stores `dtype`; the error names the class and its dtypes."""
    if dtype not in supported:
        raise PlatformError(
            f"{type(owner).__name__}: dtype {dtype} is not supported",
            why=f"this pool stores {', '.join(str(one) for one in supported)}",
            fix="set --kv-cache-dtype to one of them, or extend supported_dtypes in the device's pool",
        )
