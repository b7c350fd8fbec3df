"""Lazy platform objects: one per kind of platform, shared by all importers.

The first attribute access decides on a platform and then turns the object in place into an instance of the platform's
class. SGLang requires this: it keeps the object that calling the class returns, and modules of both sides bind
`current_platform` before it is resolved, so both must be one object. Every later access is a plain attribute access,
which torch.compile can trace.
"""

from __future__ import annotations

import threading
from typing import Any

from sglang_platform.core.discovery.kind import PlatformKind
from sglang_platform.core.discovery.process import Process

__all__ = ["lazy_platform"]


_made: dict[str, tuple[Any, Process]] = {}
_lock = threading.Lock()


def lazy_platform(kind: PlatformKind) -> tuple[Any, Process]:
    """The platform object of `kind` in this process, and the state behind it. Resolves nothing."""
    with _lock:
        if kind.group not in _made:
            _made[kind.group] = _make(kind)
        return _made[kind.group]


def _make(kind: PlatformKind) -> tuple[Any, Process]:
    class _Unresolved:
        """The class of a lazy platform before the first access.

        Python looks up special methods on the class, so each one inherited from `object` is redefined here.
        """

        def __getattribute__(self, name: str) -> Any:
            if name == "__class__":
                # isinstance() ignores `__class__` if it equals type(self) by then. So this access does not turn the
                # object, and if another thread has turned it meanwhile, the result is a subclass of its class.
                cls = process.platform_type()
                if not process.turned:
                    return cls
                return type.__new__(type(cls), cls.__name__, (cls,), {"_rebased_by_host": True})
            process.turn()
            return getattr(self, name)

        def __setattr__(self, name: str, value: Any) -> None:
            process.turn()
            setattr(self, name, value)

        def __delattr__(self, name: str) -> None:
            process.turn()
            delattr(self, name)

        def __dir__(self) -> list[str]:
            process.turn()
            return dir(self)

        def __eq__(self, other: object) -> bool:
            process.turn()
            return self == other

        def __hash__(self) -> int:
            process.turn()
            return hash(self)

        def __bool__(self) -> bool:
            process.turn()
            return bool(self)

        def __str__(self) -> str:
            process.turn()
            return str(self)

        def __format__(self, spec: str) -> str:
            process.turn()
            return format(self, spec)

        def __reduce_ex__(self, protocol: Any) -> Any:
            process.turn()
            return self.__reduce_ex__(protocol)

        def __repr__(self) -> str:
            # A debugger that shows a variable must not load a platform.
            return f"<{kind.object_name}: {process.describe()}>"

    platform = object.__new__(_Unresolved)
    process = Process(platform, _Unresolved, kind)
    return platform, process
