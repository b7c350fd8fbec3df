"""What a platform says it can do, in one form, with where each answer comes from.

A platform on core's contract declares. One that is written on SGLang's own classes has no place for it: its author may
write a `[declares]` table in `conformance.toml`; what is not there either is taken from its factories, or assumed, and
the report says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sglang_platform.core.contract.pool_kinds import KV_POOL_KINDS

__all__ = ["Declarations", "declarations_of"]


@dataclass(frozen=True)
class Declarations:
    """The platform's abilities. `origin` maps each field to who said so: `declared`, `conformance.toml`, `assumed`."""

    kv_kinds: tuple[str, ...] = ()
    kv_dtypes: tuple[str, ...] = ()
    """By torch's names without the prefix."""

    page_sizes: tuple[int, ...] = ()
    attention_features: frozenset[str] = frozenset()
    kernels: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    """The profiles of the suite that it claims (`conformance.profiles`)."""

    origin: Mapping[str, str] = field(default_factory=dict)


_ATTRIBUTES = {
    "kv_kinds": "supported_kv_kinds",
    "kv_dtypes": "supported_kv_dtypes",
    "page_sizes": "supported_page_sizes",
    "attention_features": "attention_features",
    "kernels": "kernels",
    "profiles": "conformance_profiles",
}


def declarations_of(platform: Any, written: Mapping[str, Any], *, declares_itself: bool) -> Declarations:
    """The declarations of `platform`. `written` is the `[declares]` table of the vendor's file.

    `declares_itself`: the platform is on core's contract, so what it leaves empty is a declared "no".
    """
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for name, attribute in _ATTRIBUTES.items():
        if attribute in written:
            values[name], origin[name] = written[attribute], "conformance.toml"
        elif declares_itself or hasattr(platform, attribute):
            values[name], origin[name] = getattr(platform, attribute), "declared"
        else:
            values[name], origin[name] = _assumed(name, platform), "assumed"
    return Declarations(
        kv_kinds=_texts(values["kv_kinds"]),
        kv_dtypes=_texts(values["kv_dtypes"]),
        page_sizes=tuple(sorted(int(size) for size in values["page_sizes"])),
        attention_features=frozenset(_texts(values["attention_features"])),
        kernels=_texts(values["kernels"]),
        profiles=_texts(values["profiles"]),
        origin=origin,
    )


def _assumed(name: str, platform: Any) -> Iterable[Any]:
    """What any platform in use must do: serve bfloat16 with the parts that it brings."""
    if name == "kv_kinds":
        return [kind for kind in KV_POOL_KINDS if _answers(platform, "get_kv_pool_cls", kind=kind)]
    if name == "kv_dtypes":
        return ["bfloat16"]
    if name == "page_sizes":
        return [1, 16] if _answers(platform, "get_paged_allocator_cls") else [1]
    if name == "attention_features":
        return ["mha", "gqa"]
    if name == "profiles":
        return ["core"]
    return []


def _answers(platform: Any, factory: str, **arguments: Any) -> bool:
    try:
        return getattr(platform, factory)(**arguments) is not None
    except Exception:  # noqa: BLE001 - the contract checks tell what is wrong with a factory
        return False


def _texts(values: Any) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(str(value) for value in values)
