"""The features of a platform that this release of SGLang cannot use, logged before serving."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

from sglang_platform.core.sglang.rebase import REBASED_MARK
from sglang_platform.core.sglang.versions import HostFacts, facts, since

__all__ = ["Limit", "limits_of", "log"]

_logger = logging.getLogger(__name__)


class Limit(NamedTuple):
    """One feature of the platform that has no effect on this release of SGLang."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


# A platform's methods, and the fact that says whether SGLang calls them.
_METHODS = (
    ("get_full_graph_backend_cls", "asks_full_graph_backend"),
    ("supports_speculative_algorithm", "asks_speculative_algorithm"),
    ("supports_speculative_draft_attention_backend", "asks_speculative_algorithm"),
    ("get_default_speculative_draft_attention_backend", "asks_speculative_algorithm"),
    ("support_mamba_cache_extra_buffer", "asks_mamba_extra_buffer"),
    ("get_speculative_worker_cls", "asks_speculative_worker"),
    ("get_speculative_graph_runner_cls", "asks_speculative_worker"),
    ("get_speculative_cache_locs_fn", "asks_speculative_worker"),
)
# `supports_triton` is no limit: where SGLang does not read it, a hook applies it.
_CAPABILITIES = (
    ("hicache_device_kernels", "asks_hicache_kernels"),
    ("supports_pynccl", "asks_pynccl"),
)
# Methods that SGLang calls on out-of-tree platforms only, if the fact `asks_every_platform` is False.
_OUT_OF_TREE_ONLY = (
    "get_kv_pool_cls",
    "get_paged_allocator_cls",
    "get_graph_runner_cls",
    "get_piecewise_backend_cls",
)

_ADAPTER, _CONTRACT = "sglang_platform.core.sglang.", "sglang_platform.core.contract."


def limits_of(platform: Any, host: HostFacts | None = None) -> tuple[Limit, ...]:
    """The limits of this platform on this release (default: the installed one), determined without a device."""
    return tuple(_limits(platform, host or facts()))


def _limits(platform: Any, host: HostFacts) -> Iterator[Limit]:
    cls, capabilities, name = type(platform), platform.capabilities, f"SGLang {host.version}"
    for method, fact in _METHODS:
        if overridden(cls, method) and not getattr(host, fact):
            yield Limit(f"{method}()", f"{name} does not ask for it; {since(fact)} and later do")
    if overridden(cls, "get_piecewise_backend_cls") and not host.asks_piecewise_backend:
        end = since("asks_piecewise_backend")
        why = f"{name} refuses the argument that asks for it (tc_piecewise); releases before {end} take it"
        yield Limit("get_piecewise_backend_cls()", why)
    for field, fact in _CAPABILITIES:
        if getattr(capabilities, field, False) and not getattr(host, fact):
            yield Limit(f"capabilities.{field}", f"{name} has no reader for it; {since(fact)} and later do")
    if getattr(capabilities, "fp8", False):
        yield Limit("capabilities.fp8", f"{name} has no reader for it; core and the conformance suite do")
    if not host.asks_every_platform and not platform.is_out_of_tree():
        why = f"{name} asks only out-of-tree platforms; {since('asks_every_platform')} and later ask all"
        yield from (Limit(f"{method}()", why) for method in _OUT_OF_TREE_ONLY if overridden(cls, method))


def overridden(cls: type, name: str) -> bool:
    """Whether a vendor's class overrides `name`; ignores the adapter's classes, which only delegate to it."""
    for klass in cls.__mro__:
        if name not in vars(klass) or REBASED_MARK in vars(klass) or klass.__module__.startswith(_ADAPTER):
            continue
        return klass.__module__.partition(".")[0] != "sglang" and not klass.__module__.startswith(_CONTRACT)
    return False


def log(platform: Any) -> None:
    """Log the limits at INFO, since a healthy start has no warnings. The report of each process lists them too.

    Not called for a device of SGLang's own, where SGLang serves what a platform does not.
    """
    origin = getattr(platform, "_plugin_origin", None)
    for limit in limits_of(platform):
        _logger.info("platform %s on SGLang %s: %s", origin or platform, facts().version, limit)
