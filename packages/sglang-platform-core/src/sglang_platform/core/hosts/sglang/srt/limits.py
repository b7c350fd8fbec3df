"""What a platform offers and this version of the host cannot use, said before serving."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from sglang_platform.core.hosts.sglang.rebase import REBASED_MARK
from sglang_platform.core.hosts.sglang.versions import HostFacts, facts

__all__ = ["Limit", "limits_of", "warn"]

_logger = logging.getLogger(__name__)


class Limit(NamedTuple):
    """One answer of the platform that does nothing on this host."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


# The platform's method, the fact that says the host asks for it, and the first release that does.
_NOT_CARRIED = (
    ("get_full_graph_backend_cls", "asks_full_graph_backend", "0.5.21"),
    ("supports_speculative_algorithm", "asks_speculative_algorithm", "0.5.21"),
    ("supports_speculative_draft_attention_backend", "asks_speculative_algorithm", "0.5.21"),
    ("get_default_speculative_draft_attention_backend", "asks_speculative_algorithm", "0.5.21"),
    ("support_mamba_cache_extra_buffer", "asks_mamba_extra_buffer", "0.5.22"),
    ("get_speculative_worker_cls", "asks_speculative_worker", "0.5.23"),
    ("get_speculative_graph_runner_cls", "asks_speculative_worker", "0.5.23"),
)

_ADAPTER, _CONTRACT = "sglang_platform.core.hosts.", "sglang_platform.core.contract."

_READ_SINCE = {"supports_triton": "0.5.22", "hicache_device_kernels": "0.5.22", "supports_pynccl": "0.5.23"}
# Carried by a hook where the host does not read it.
_CARRIED_CAPABILITIES = frozenset({"supports_triton"})

_OUT_OF_TREE_ONLY = (
    "get_kv_pool_cls",
    "get_paged_allocator_cls",
    "get_graph_runner_cls",
    "get_piecewise_backend_cls",
)


def limits_of(platform: Any, host: HostFacts | None = None) -> tuple[Limit, ...]:
    """The limits of this platform on this host (by default the installed one), worked out without a device."""
    host = host or facts()
    found = []
    for name, fact, since in _NOT_CARRIED:
        if overridden(type(platform), name) and not getattr(host, fact):
            found.append(
                Limit(f"{name}()", f"SGLang {host.version} does not ask for it; {since} and later do")
            )
    if overridden(type(platform), "get_speculative_cache_locs_fn"):
        found.append(Limit("get_speculative_cache_locs_fn()", "no release of SGLang calls it"))
    if overridden(type(platform), "get_piecewise_backend_cls") and not host.asks_piecewise_backend:
        found.append(
            Limit(
                "get_piecewise_backend_cls()",
                f"SGLang {host.version} refuses the argument that asks for it (tc_piecewise); 0.5.11 to 0.5.21 take it",
            )
        )
    found.extend(_capability_limits(platform, host))
    if not host.takes_none_for_parts and not platform.is_out_of_tree():
        found.extend(
            Limit(
                f"{name}()",
                f"SGLang {host.version} asks only out-of-tree platforms; 0.5.22 and later ask all",
            )
            for name in _OUT_OF_TREE_ONLY
            if overridden(type(platform), name)
        )
    return tuple(found)


def _capability_limits(platform: Any, host: HostFacts) -> list[Limit]:
    from packaging.version import Version

    found = []
    capabilities = platform.capabilities
    for field, since in _READ_SINCE.items():
        unread = Version(host.version) < Version(since) and field not in _CARRIED_CAPABILITIES
        if unread and getattr(capabilities, field, False):
            found.append(
                Limit(
                    f"capabilities.{field}",
                    f"SGLang {host.version} has no reader for it; {since} and later do",
                )
            )
    if getattr(capabilities, "fp8", False):
        found.append(
            Limit(
                "capabilities.fp8",
                f"SGLang {host.version} has no reader for it; core and the conformance suite do",
            )
        )
    return found


def overridden(cls: type, name: str) -> bool:
    """Whether a vendor's class answers `name`; the adapter's own classes stand before it and pass the question on."""
    for klass in cls.__mro__:
        if name not in vars(klass) or REBASED_MARK in vars(klass) or klass.__module__.startswith(_ADAPTER):
            continue
        return klass.__module__.partition(".")[0] != "sglang" and not klass.__module__.startswith(_CONTRACT)
    return False


def warn(platform: Any) -> None:
    """Log the limits, once per process that loads plugins."""
    origin = getattr(platform, "_plugin_origin", None)
    for limit in limits_of(platform):
        _logger.warning("platform %s on SGLang %s: %s", origin or platform, facts().version, limit)
