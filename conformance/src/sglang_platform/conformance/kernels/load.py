"""Loads what a platform declares about its kernels."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from sglang_platform.core.contract.kernels import KernelDeclaration

__all__ = ["declarations", "named"]


def named(place: str) -> Any:
    """The object at `"package.module:name"`. Raises ValueError for another form, ImportError, AttributeError."""
    module, colon, name = place.partition(":")
    if not colon or not module or not name:
        raise ValueError(f"{place!r} must name a place as 'package.module:name'")
    return getattr(importlib.import_module(module), name)


def declarations(places: Iterable[str]) -> list[KernelDeclaration]:
    """All declarations at `places`, in order. Raises ValueError for two of one name."""
    found: dict[str, KernelDeclaration] = {}
    for place in places:
        held = named(place)
        for declaration in (held,) if isinstance(held, KernelDeclaration) else held:
            if not isinstance(declaration, KernelDeclaration):
                raise ValueError(f"{place} holds {declaration!r}, which is no KernelDeclaration")
            if declaration.name in found:
                raise ValueError(f"two kernels are declared as {declaration.name!r}")
            found[declaration.name] = declaration
    return list(found.values())
