"""One finding: how bad, what, which plugin, why, what to do, and an id that scripts can rely on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

from sglang_platform.core.errors import (
    ConfigurationError,
    ContractVersionError,
    DuplicatePlugins,
    PlatformError,
    PluginEnded,
    PluginFailed,
    PluginNotFound,
    PluginOrigin,
    SeveralPlatforms,
)

__all__ = ["NOT_LOOKED_AT", "Finding", "FindingId", "Severity", "as_finding", "describe", "worst_first"]

Severity = Literal["problem", "warning", "note"]

FindingId = Literal[
    # metadata and entry points
    "metadata-unreadable",
    "distribution-hidden",
    "group-unread",
    "group-wrong",
    "entry-point-nowhere",
    "sources-unread",
    "duplicate-name",
    "contract-version",
    "contract-without-plugin",
    "version-conflict",
    "core-not-installed",
    # the decision and its variables
    "platform-decided",
    "platform-declined",
    "platform-unfit",
    "platform-refused",
    "several-platforms",
    "plugin-failed",
    "plugins-untried",
    "plugin-ended",
    "plugin-slow",
    "plugin-not-found",
    "variable-unusable",
    "filter-unknown-name",
    "filter-hides-core",
    "filter-hides-platform",
    "filter-hides-own-hooks",
    # platform classes
    "platform-class-nowhere",
    "platform-class-failed",
    "platform-class-unread",
    "override-older-name",
    "override-dead",
    "override-not-called",
    "override-unreached",
    "override-signature",
    "override-kind",
    "override-values",
    "override-missing",
    "identity-missing",
    "factory-answer",
    "class-unread",
    # what a plugin takes from SGLang
    "host-import-missing",
    "host-call-refused",
    "host-use-unclear",
    "plugin-unparsed",
    # hooks
    "hook-malformed",
    "hook-missing",
    "hook-moved",
    "hook-changed",
    "hook-bypassed",
    "hook-unknown",
    # a running SGLang
    "host-failed",
]
"""The kind of a finding. An id never changes its meaning."""


NOT_LOOKED_AT = frozenset(
    {
        "plugins-untried",
        "sources-unread",
        "platform-class-unread",
        "class-unread",
        "host-use-unclear",
        "hook-unknown",
    }
)
"""Findings that report what could not be examined."""


class Finding(NamedTuple):
    """One thing that is wrong (`problem`), probably wrong (`warning`), or worth knowing (`note`)."""

    id: FindingId
    severity: Severity
    what: str
    plugin: PluginOrigin | None = None
    why: str | None = None
    fix: str | None = None
    where: str | None = None
    """``file:line`` in the plugin."""


_IDS: tuple[tuple[type[PlatformError], FindingId], ...] = (
    (DuplicatePlugins, "duplicate-name"),
    (ContractVersionError, "contract-version"),
    (SeveralPlatforms, "several-platforms"),
    (PluginEnded, "plugin-ended"),
    (PluginFailed, "plugin-failed"),
    (PluginNotFound, "plugin-not-found"),
    (ConfigurationError, "variable-unusable"),
)


def as_finding(error: PlatformError) -> Finding:
    """A PlatformError that would stop a launch, as a problem."""
    found: FindingId = next((name for cls, name in _IDS if isinstance(error, cls)), "platform-refused")
    return Finding(found, "problem", error.what, error.plugin, error.why, error.fix)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Problems, then warnings, then notes; within each in the order given."""
    return sorted(findings, key=lambda finding: get_args(Severity).index(finding.severity))


def describe(finding: Finding) -> dict[str, Any]:
    """The finding in plain JSON types; its keys are the names of the attributes."""
    return {**finding._asdict(), "plugin": finding.plugin._asdict() if finding.plugin else None}
