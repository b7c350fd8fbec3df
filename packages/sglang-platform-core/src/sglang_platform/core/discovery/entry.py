"""`platform_plugin`, `mm_platform_plugin`: decorators that let one `activate()` serve both core and the host."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar, overload

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.asking import asked_plugin
from sglang_platform.core.discovery.damaged_install import refusing_without_core
from sglang_platform.core.discovery.kind import DIFFUSION, SRT, PlatformKind
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.discovery.process import host_attribute
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.errors import ContractError, LaunchRefused
from sglang_platform.core.spelling import shown

__all__ = ["mm_platform_plugin", "platform_plugin"]

_Activate = Callable[[], str | None]
_A = TypeVar("_A", bound=Callable[[], Any])

_answers_for_it: dict[PlatformKind, _Activate] = {}
"""The `activate()` that answers the host, per kind, for a class without a distribution."""


@overload
def platform_plugin(activate: _A) -> _A: ...
@overload
def platform_plugin(activate: None = None) -> Callable[[_A], _A]: ...
def platform_plugin(activate: Any = None) -> Any:
    """Decorate the `activate()` that a platform's entry point in `sglang.srt.platforms` names.

    Called by core, or outside a host, it is the plain function. Called by the host, it answers by core's rules for the
    whole process:

    - the location of the re-based class if this plugin is the platform. If a variable names a class without a
      distribution, the first plugin asked answers for it;
    - None if another platform or none is active.

    Raises LaunchRefused if the rules refuse or core cannot be imported, since the host swallows every `Exception`.
    """
    return _for_kind(activate, SRT)


@overload
def mm_platform_plugin(activate: _A) -> _A: ...
@overload
def mm_platform_plugin(activate: None = None) -> Callable[[_A], _A]: ...
def mm_platform_plugin(activate: Any = None) -> Any:
    """Decorate the `activate()` that an entry point in `sglang.multimodal_gen.platforms` names; otherwise as
    `platform_plugin`, for the diffusion runtime."""
    return _for_kind(activate, DIFFUSION)


def _for_kind(activate: Any, kind: PlatformKind) -> Any:
    if activate is None:  # written with parentheses
        return functools.partial(_for_kind, kind=kind)
    if isinstance(activate, type) or not callable(activate):
        what = f"the class {activate.__qualname__}" if isinstance(activate, type) else shown(activate)
        raise ContractError(
            f"@{kind.decorator} decorates {what}, not a function",
            why="it makes activate() answer SGLang with a class that is ready for it",
            fix=f'write @{kind.decorator} above `def activate()`, which returns "pkg.mod:Class"',
        )

    plain: _Activate = activate

    @functools.wraps(plain)
    def answer() -> str | None:
        if asked_plugin() is not None or not kind.host.runs_here():
            return plain()
        return _answer_host(answer, plain, kind)

    answer._answers = kind.group  # type: ignore[attr-defined]
    return answer


def _answer_host(answer: _Activate, activate: _Activate, kind: PlatformKind) -> str | None:
    _, process = lazy_platform(kind)
    try:
        with refusing_without_core():
            origin = process.decide().origin
    except LaunchRefused:
        kind.host.forget_import()
        raise
    if origin is None:
        return None
    if origin.distribution is None:  # named by a variable: the first plugin asked answers
        if _answers_for_it.setdefault(kind, activate) is not activate:
            return None
    elif origin.name not in _names(answer, activate, kind):
        return None
    return f"{kind.host.rebased_classes}:{host_attribute(origin.name)}"


def _names(answer: _Activate, activate: _Activate, kind: PlatformKind) -> set[str]:
    """The entry-point names under which this function is registered."""
    return {record.name for record in scan.records(kind.group) if _is(record, answer, activate)}


def _is(record: EntryPointRecord, answer: _Activate, activate: _Activate) -> bool:
    module, _, attributes = record.value.partition("[")[0].replace(" ", "").partition(":")
    if (module, attributes) == (activate.__module__, activate.__qualname__):
        return True
    # Registered under an alias in another module, which is loaded, since it was called through it.
    found: object = sys.modules.get(module)
    for name in attributes.split("."):
        found = getattr(found, name, None)
    return found is answer
