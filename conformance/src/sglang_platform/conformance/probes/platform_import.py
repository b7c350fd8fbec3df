"""Ask a plugin, import its class and make its object, and tell what that waits for, starts, replaces and reads.

Given: `module`, `attribute`; `packages` whose code is the plugin's; `preload`: modules of others, whose doings are not
the plugin's; `to_the_class`: whether to go on to the class. Told: `reads`, what the plugin's code looked at of the way
in which the process was started, from the question to the object; of the class's import `idle`, the seconds in which
this thread neither computed nor waited for a processor, `programs` that the plugin's code started, and `functions` of
others that were replaced.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from sglang_platform.conformance.probes import tell
from sglang_platform.conformance.probes.left_behind import undisturbed
from sglang_platform.conformance.probes.traces import changes, read_all

__all__: list[str] = []

_STARTS = ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "pty.spawn")
_OPENS = ("open", "os.listdir", "os.scandir")
_LOOKS = ("stat", "lstat", "access", "readlink")
"""Functions of os that Python does not report."""

_OF_THE_START = ("/proc/self/cmdline", f"/proc/{os.getpid()}/cmdline")


class Watch:
    """What the code of these packages does while it listens."""

    def __init__(self, packages: list[str]) -> None:
        self.packages = packages
        self.listening = False
        self.programs: list[str] = []
        self.reads: list[str] = []
        sys.addaudithook(self._heard)
        for name in _LOOKS:
            setattr(os, name, self._looking(getattr(os, name)))
        sys.argv = Arguments(sys.argv, self)
        sys.orig_argv = Arguments(sys.orig_argv, self)

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        self.listening = True
        try:
            yield
        finally:
            self.listening = False

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.listening:
            return
        if event in _STARTS:
            place = self.place()
            if place:
                words = arguments[1] if event == "subprocess.Popen" else arguments[:1] or event
                self.programs.append(f"{words!r} ({place})")
        elif event in _OPENS:
            self.looked(arguments[0])

    def _looking(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def looked(path: Any, *arguments: Any, **named: Any) -> Any:
            if self.listening and named.get("dir_fd") is None:
                self.looked(path)
            return function(path, *arguments, **named)

        return looked

    def looked(self, path: Any) -> None:
        """At a file, which counts where its name alone does not tell which."""
        if not isinstance(path, str | bytes | os.PathLike):
            return
        text = os.fsdecode(path)
        if text in _OF_THE_START:
            self.read("the command line", text)
        elif not text.startswith(os.sep):
            self.read("a file of the working folder", repr(text))

    def read(self, what: str, name: str) -> None:
        place = self.listening and self.place()
        if place:
            self.reads.append(f"{what}, {name} ({place})")

    def place(self) -> str | None:
        """Where the packages' own code asks for it; None where somebody else does."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _between(frame.f_globals.get("__name__", "")):
            frame = frame.f_back
        name = "" if frame is None else frame.f_globals.get("__name__", "")
        if frame is None or not any(f"{name}.".startswith(f"{one}.") for one in self.packages):
            return None
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


_LOOKED_UP_BY = (
    "_frozen_importlib",
    "_frozen_importlib_external",
    "ctypes",
    "importlib",
    "inspect",
    "linecache",
    "platform",
    "tempfile",
    "uuid",
    "zipimport",
)
"""Modules of the standard library that start programs and look at folders for reasons of their own."""


def _between(name: str) -> bool:
    """Whether code of this module only carries out what its caller wants."""
    top = name.partition(".")[0]
    return (
        name == __name__
        or name == "__main__"
        or (top in sys.stdlib_module_names and top not in _LOOKED_UP_BY)
    )


class Arguments(list):  # type: ignore[type-arg]
    """`sys.argv` that tells who reads it."""

    def __init__(self, words: list[str], watch: Watch) -> None:
        super().__init__(words)
        self._watch = watch

    def __getitem__(self, at: Any) -> Any:
        if at != 0 or sys._getframe(1).f_globals.get("__name__") != "argparse":  # a parser's name
            self._watch.read("the command line", "sys.argv")
        return super().__getitem__(at)

    def __iter__(self) -> Iterator[Any]:
        self._watch.read("the command line", "sys.argv")
        return super().__iter__()

    def __contains__(self, word: object) -> bool:
        self._watch.read("the command line", "sys.argv")
        return super().__contains__(word)

    def __repr__(self) -> str:
        self._watch.read("the command line", "sys.argv")
        return super().__repr__()


def look(given: dict[str, Any]) -> dict[str, Any]:
    for name in given["preload"]:
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    watch = Watch(given["packages"])
    told: dict[str, Any] = {"reads": watch.reads}
    with watch.on():
        function: Any = importlib.import_module(given["module"])
        for part in given["attribute"].split("."):
            function = getattr(function, part)
        with contextlib.suppress(Exception):  # that a device is not here
            place = function()
    if not given["to_the_class"]:
        return told
    watch.programs.clear()  # what asking takes is judged by itself
    before = read_all(("functions",))
    with watch.on():
        started, computed = undisturbed(), time.thread_time()
        cls = pkgutil.resolve_name(place)
        told["idle"] = (undisturbed() - started) - (time.thread_time() - computed)
    told["programs"] = list(watch.programs)
    told["functions"] = changes(before, read_all(("functions",))).get("functions", [])
    with watch.on(), contextlib.suppress(Exception):  # contract.platform_is_created tells
        cls()
    return told


if __name__ == "__main__":
    tell(look)
