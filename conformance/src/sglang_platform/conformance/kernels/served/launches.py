"""The type of what is launched: functions without arguments, by the name of what is served."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["Launches"]

Launches = Mapping[str, Callable[[], object]]
