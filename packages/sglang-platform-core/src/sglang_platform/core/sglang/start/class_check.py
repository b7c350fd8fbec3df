"""What SGLang cannot take for its platform's class, in the words of core's rules.

An `activate()` without core's decorator answers SGLang directly, and a wrong answer ends the launch with a traceback:
`TypeError: Expected an SRTPlatform subclass` for a class on core's contract. No code of core need have run before: the
first to run is the creation of that class, which may be in the middle of SGLang's `_load_platform_class`. So both are
replaced in SGLang's module: that function, and the name `issubclass` that it looks up after the import.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from sglang_platform.core.discovery.kind import KINDS, PlatformKind
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.errors import LaunchRefused, PlatformError

__all__ = ["install"]

_LOADS = "_load_platform_class"


def install() -> None:
    """Guard the platform modules of the runtimes in this process. Idempotent."""
    for kind in KINDS:
        module = sys.modules.get(kind.host.platform_module)
        if module is not None and _LOADS in vars(module) and "issubclass" not in vars(module):
            module.issubclass = functools.partial(_is_subclass, kind)  # type: ignore[attr-defined]
            setattr(module, _LOADS, functools.partial(_load, kind, getattr(module, _LOADS)))


def _is_subclass(kind: PlatformKind, cls: type, bases: Any) -> bool:
    answer = issubclass(cls, bases)
    if not answer and issubclass(cls, kind.core_base()):
        _refuse(kind, f"{cls.__module__}.{cls.__qualname__}")
    return answer


def _load(kind: PlatformKind, load: Callable[..., Any], answer: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return load(answer, *args, **kwargs)
    except Exception as error:  # noqa: BLE001  (of whatever answer)
        _refuse(kind, str(answer), error)


def _refuse(kind: PlatformKind, answer: str, cause: Exception | None = None) -> None:
    try:
        trace = lazy_platform(kind)[1].decide().trace
    except PlatformError as error:
        raise LaunchRefused.because(error) from error
    failed = next((one for one in trace.candidates if one.outcome == "failed"), None)
    if failed is None and cause is not None:
        raise cause
    raise LaunchRefused(
        f"SGLang cannot take {answer} for its platform's class",
        plugin=failed.origin if failed else None,
        why=failed.reason if failed else trace.outcome,
        fix=f"decorate activate() with sglang_platform.core.{kind.decorator}",
    )
