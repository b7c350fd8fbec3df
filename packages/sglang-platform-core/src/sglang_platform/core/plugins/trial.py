"""The program of a trial: loads plugins as a launch does, and tells what came of it. Started by `together`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglang_platform.core.contract.factories import refuse_wrong_answers
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.discovery.kind import KINDS, SRT, PlatformKind
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.discovery.own_process import Tell
from sglang_platform.core.discovery.trace import describe_error
from sglang_platform.core.errors import LaunchRefused, PlatformError, explain
from sglang_platform.core.ops.fused_op import FusedOp
from sglang_platform.core.plugins.loading import load_plugins

__all__ = ["main"]


def main(asked: Mapping[str, Any], tell: Tell) -> None:
    """Load, and tell each plugin before it runs, as `begun`, and the outcome."""
    (kind,) = [one for one in KINDS if one.general_group == asked["group"]]
    outcome: dict[str, Any] = {"error": None, "untried": None}
    try:
        outcome["untried"] = _load(kind, tell)
    except (PlatformError, LaunchRefused) as error:
        outcome["error"] = describe_error(error)
    tell(outcome)


def _load(kind: PlatformKind, tell: Tell) -> str | None:
    """Load all; the reason if the platform's `init_backend()` failed."""
    platform, process = lazy_platform(kind)
    process.turn()
    load_plugins(kind=kind, before=lambda origin: tell({"begun": origin}))
    decision = process.decision
    if decision is None or decision.origin is None:
        return None
    tell({"begun": decision.origin})
    try:
        platform.init_backend()
        cls = decision.platform_class
        if kind is SRT and cls is not None and issubclass(cls, SRTPlatform):
            FusedOp.refuse_other_keys(platform, decision.origin)
            refuse_wrong_answers(cls, platform, decision.origin)
    except PlatformError:
        raise
    except Exception as error:  # noqa: BLE001 - a device that is in use may be opened by one process only
        return f"init_backend() of {decision.origin}: {explain(error)}"
    return None
