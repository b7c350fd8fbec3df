"""Does what a fault's `act.py` says and writes down what came of it. Runs inside the process that has the fault."""

from __future__ import annotations

import linecache
import logging
import sys
from collections.abc import Callable, Coroutine
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

__all__ = ["Libraries", "observe"]


class Libraries:
    """Makes what is installed importable without showing its metadata: the process sees the fault's plugins only."""

    def __init__(self, *folders: str) -> None:
        self._folders = list(folders)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, self._folders, target) if path is None else None


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {type(record.exc_info[1]).__name__}"
        self.messages.append(text)


def observe(folder: Path) -> tuple[dict[str, Any], BaseException | None]:
    """What was seen, logged (warnings and worse) and raised."""
    seen: list[str] = []
    warnings = _Warnings()
    logging.getLogger().addHandler(warnings)
    path = folder / "act.py"
    error: BaseException | None = None
    try:
        exec(compile(path.read_text(), str(path), "exec"), _names(seen.append))
    except BaseException as raised:  # noqa: BLE001 a fault may end in SystemExit, or worse
        error = raised
    outcome = {"seen": "; ".join(seen), "warnings": warnings.messages, "error": _describe(error)}
    return outcome, error


def _names(see: Callable[[str], None]) -> dict[str, Any]:
    def finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The result of a coroutine that waits for nothing."""
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("the coroutine waits for something")

    def chosen() -> None:
        """See which platform the process has."""
        from touch import touched

        name = touched().device_name
        see("the base platform" if name == "unknown" else f"the platform {name!r}")

    return {"__name__": "act", "see": see, "finish": finish, "chosen": chosen}


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 the error is the fault's own
        return "(its text cannot be had)"


def _describe(error: BaseException | None) -> dict[str, Any] | None:
    if error is None:
        return None
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    place = traceback.tb_frame.f_code.co_filename if traceback else ""
    line = linecache.getline(place, traceback.tb_lineno).strip() if traceback else ""
    return {
        "type": type(error).__name__,
        "text": _text(error),
        "plugin": str(getattr(error, "plugin", None) or "") or None,
        "fix": getattr(error, "fix", None),
        "on_purpose": line.startswith("raise") and "/sglang/srt/pl" in place,
    }


def _messages() -> dict[str, str]:
    """What sglang-platform keeps to be asked for: the hook report, the trace of the decision, the plugins' states."""
    kept = {"report": "", "trace": ""}
    if "sglang_platform.core.hooks.registry" in sys.modules:
        from sglang_platform.core.hooks.registry import HookRegistry

        lines = []
        for row in HookRegistry.report():
            lines += [f"{row['state']} {row['type']} {row['target']} {row['hook']}", row["why"] or ""]
            lines += [f"not reached: {name}" for name in row["unreached"]]
        kept["report"] = "\n".join(lines)
    if "sglang_platform.core.discovery.lazy" in sys.modules:
        from sglang_platform.core.discovery import current
        from sglang_platform.core.plugins import loaded_plugins

        found = current.trace()
        lines = [
            *(found.lines() if found else ()),
            *(f"{one.origin}: {one.reason}" for one in loaded_plugins()),
        ]
        kept["trace"] = "\n".join(lines)
    return kept


def main(folder: Path) -> None:
    """The outcome goes to `outcome.json`; what was raised leaves the process as it would without us."""
    import json

    outcome, error = observe(folder)
    (folder / "outcome.json").write_text(json.dumps({**outcome, **_messages()}))
    if error is not None:
        raise error


if __name__ == "__main__":
    main(Path(sys.argv[1]))
