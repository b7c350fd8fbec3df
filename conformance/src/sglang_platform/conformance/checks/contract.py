"""Level 2: the platform is on the contract."""

from __future__ import annotations

from sglang_platform.conformance.check import CheckFailed, check
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import PlatformRefused, Subject


@check(
    level=Level.CONTRACT,
    needs="source",
    fix="correct what the message names; until then no check that needs the platform can run",
)
def platform_is_created(subject: Subject) -> None:
    """The plugin is asked, its platform class is imported, accepted by the contract, and instantiated."""
    try:
        _ = subject.platform
    except PlatformRefused as refused:
        cause = refused.__cause__
        what = getattr(cause, "what", None) or str(cause)
        why = getattr(cause, "why", None)
        raise CheckFailed(f"{what}\n{why}" if why else what, fix=getattr(cause, "fix", None)) from cause
