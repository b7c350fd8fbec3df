"""The conformance suite for SGLang hardware platforms.

level       the eight levels          check        what a check is, and the decorator
checks/     the checks                requirement  what a check asks of a platform first
plugin      who is under test          subject      its platform, which checks are given
parts/      how it is built, by host   fixtures/    what its parts are put into
runner      runs checks, in processes of their own: worker
expected    the vendor's file         report/      JSON, HTML, comparison, the hardware page
extras      what only some checks need
cli/        the command               suite, suite_run, pytest_*   the same as tests
oracles/    the right answers, by independent code
host/       a running SGLang
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sglang_platform.conformance.check import CheckFailed
    from sglang_platform.conformance.level import Level
    from sglang_platform.conformance.suite import PlatformSuite

__all__ = ["CheckFailed", "Level", "PlatformSuite"]

_HOME = {
    "CheckFailed": "check",
    "Level": "level",
    "PlatformSuite": "suite",
}


def __getattr__(name: str) -> Any:
    import importlib

    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
