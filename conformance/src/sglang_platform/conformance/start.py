"""What happens before the first check: the platform and its parts are made, and what is built for them is built.

Also who else's plugins run in the host's processes: one that is broken keeps every platform from being made.
"""

from __future__ import annotations

import contextlib
from typing import Any

from sglang_platform.conformance.subject import PlatformRefused, Subject
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.distribution import normalize
from sglang_platform.core.discovery.groups import GENERAL_GROUP, OWN_PLUGIN
from sglang_platform.core.discovery.settings import plugin_filter
from sglang_platform.core.plugins import load_plugins

__all__ = ["foreign_failure", "general_plugins", "make_parts"]


def general_plugins(subject: Subject) -> list[dict[str, Any]]:
    """The general plugins that run here but for core's own: `name`, `distribution`, and whether the distribution is
    that of the platform under test (`own`)."""
    names = plugin_filter()
    return [
        {
            "name": one.name,
            "distribution": one.origin.distribution,
            "own": _is_own(subject, one.origin.distribution),
        }
        for one in scan.records(GENERAL_GROUP)
        if one.name != OWN_PLUGIN and (names is None or one.name in names)
    ]


def foreign_failure(subject: Subject) -> dict[str, Any] | None:
    """The general plugin of another distribution that fails in this process, and why; None where none does."""
    try:
        subject.platform  # noqa: B018 - in SGLang this runs them
        if subject.host == "none":
            load_plugins()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a launch that is refused is no Exception
        cause = error.__cause__ if isinstance(error, PlatformRefused) else error
        plugin = getattr(cause, "plugin", None)
        names = {one["name"] for one in general_plugins(subject) if not one["own"]}
        if plugin is not None and plugin.name in names:
            why = str(getattr(cause, "why", None) or cause)
            return {"name": plugin.name, "distribution": plugin.distribution, "why": why}
    return None


def make_parts(subject: Subject) -> None:
    """Ask for every part, as serving does: a device that builds its kernels at first use builds them now. What fails is
    told by the part's own check."""
    with contextlib.suppress(BaseException):
        if subject.availability is not None:
            return
        platform = subject.platform
        asked = [subject.parts.init_backend, platform.get_paged_allocator_cls, platform.get_graph_runner_cls]
        asked += [subject.parts.attention_factory]
        for call in asked:
            with contextlib.suppress(Exception):
                call()
        for kind in KINDS:
            with contextlib.suppress(Exception):
                platform.get_kv_pool_cls(kind=kind)


def _is_own(subject: Subject, distribution: str | None) -> bool:
    return normalize(distribution or "") == normalize(subject.distribution or "\0")
