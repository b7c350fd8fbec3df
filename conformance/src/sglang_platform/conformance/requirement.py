"""What a check asks of a platform before it is run, named after abilities and answered from its declarations.

A requirement that is not met keeps a check from running, and the report says which and why. Nothing is inferred from
a vendor's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sglang_platform.conformance.extras import missing
from sglang_platform.conformance.outcome import Cause

if TYPE_CHECKING:
    from sglang_platform.conformance.subject import Subject

__all__ = [
    "Requirement",
    "all_of",
    "attention_backend",
    "attention_feature",
    "capability",
    "engine",
    "fused_ops",
    "graph_capture",
    "kv_dtype",
    "kv_kind",
    "kv_pool",
    "page_size",
    "paged_allocator",
    "world_size",
]


@dataclass(frozen=True)
class Requirement:
    """One ability. `why_not(subject)` is None where the platform has it, else the reason in words."""

    name: str
    means: str
    why_not: Callable[[Subject], str | None]
    waits_for: Cause | None = None
    """What is missing where it is not met. None: nothing, the platform does not declare or bring it."""
    parts: tuple[Requirement, ...] = ()
    """Those that it joins, of `all_of`."""

    def __str__(self) -> str:
        return self.name


def _declared(name: str, means: str, holds: Callable[[Subject], bool], where: str) -> Requirement:
    return Requirement(name, means, lambda subject: None if holds(subject) else f"not declared: {where}")


def kv_kind(kind: str) -> Requirement:
    """The platform brings a KV pool of this kind: `mha`, `mla` or `dsa` (`supported_kv_kinds`)."""
    return _declared(
        f"kv_kind({kind})",
        f"a KV pool of kind {kind}",
        lambda subject: kind in subject.declares.kv_kinds,
        f"{kind!r} is not in supported_kv_kinds",
    )


def kv_pool() -> Requirement:
    """The platform brings a KV pool of any kind (`supported_kv_kinds`)."""
    return _declared(
        "kv_pool",
        "a KV pool of its own",
        lambda subject: bool(subject.declares.kv_kinds),
        "supported_kv_kinds is empty: the host's own pools are used",
    )


def kv_dtype(name: str) -> Requirement:
    """Its KV pools store this type, by torch's name without the prefix (`supported_kv_dtypes`)."""
    return _declared(
        f"kv_dtype({name})",
        f"KV pools of dtype {name}",
        lambda subject: name in subject.declares.kv_dtypes,
        f"{name!r} is not in supported_kv_dtypes",
    )


def page_size(at_least: int = 1) -> Requirement:
    """It works with some page size of at least this many tokens (`supported_page_sizes`)."""
    return _declared(
        f"page_size({at_least}+)",
        f"pages of {at_least} or more tokens",
        lambda subject: any(size >= at_least for size in subject.declares.page_sizes),
        f"supported_page_sizes has none of {at_least} or more",
    )


def paged_allocator() -> Requirement:
    """It brings an allocator for pages of more than one token (`get_paged_allocator_cls`)."""

    def why_not(subject: Subject) -> str | None:
        if subject.platform.get_paged_allocator_cls() is None:
            return "get_paged_allocator_cls() answers None: the host's own allocator is used"
        return None

    return Requirement("paged_allocator", "a paged allocator of its own", why_not)


def attention_backend() -> Requirement:
    """It brings an attention backend (`get_attention_backends`, or one that it registers with the host)."""

    def why_not(subject: Subject) -> str | None:
        if subject.parts.attention_factory() is None:
            return "the platform brings no attention backend: one of the host's own is used"
        return None

    return Requirement("attention_backend", "an attention backend of its own", why_not)


def attention_feature(word: str) -> Requirement:
    """Its attention computes this, in the contract's words (`attention_features`)."""
    return _declared(
        f"attention_feature({word})",
        f"attention with {word}",
        lambda subject: word in subject.declares.attention_features,
        f"{word!r} is not in attention_features",
    )


def capability(name: str) -> Requirement:
    """A field of `capabilities` that is True."""
    return _declared(
        f"capability({name})",
        f"capabilities.{name}",
        lambda subject: bool(getattr(subject.platform.capabilities, name, False)),
        f"capabilities.{name} is False",
    )


def graph_capture() -> Requirement:
    """Decode steps can be captured and replayed (`capabilities.graph_capture`)."""
    return capability("graph_capture")


def fused_ops() -> Requirement:
    """It registers fused ops under its dispatch key, in `init_backend()`."""

    def why_not(subject: Subject) -> str | None:
        return None if subject.fused_ops() else "init_backend() registers no fused op"

    return Requirement("fused_ops", "fused ops of its own", why_not)


def engine() -> Requirement:
    """SGLang can be started here: its packages and a model library are installed."""

    return Requirement("engine", "an installed SGLang", lambda subject: missing("sglang"), waits_for="host")


def world_size(ranks: int) -> Requirement:
    """This machine can hold so many ranks of the device."""

    def why_not(subject: Subject) -> str | None:
        if subject.device.type == "cpu" or subject.device_count() >= ranks:
            return None
        return f"{ranks} devices are needed, {subject.device_count()} found"

    return Requirement(f"world_size({ranks})", f"{ranks} devices", why_not, waits_for="device")


def all_of(*requirements: Requirement) -> Requirement:
    """Every one of these; the first that is not met gives the reason."""

    def why_not(subject: Subject) -> str | None:
        return next((why for one in requirements if (why := one.why_not(subject)) is not None), None)

    waits = {one.waits_for for one in requirements}
    if len(waits) > 1:
        raise ValueError(
            "what the platform declares and what the machine has are told apart: name them one by one"
        )
    name = " and ".join(map(str, requirements))
    return Requirement(name, "", why_not, waits_for=waits.pop(), parts=requirements)
