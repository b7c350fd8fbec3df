"""What a process must be like afterwards as it was before: one record for each thing that code may leave behind.

Read in the process itself, before and after; `changes` says in words what differs. Code that is imported or asked is
judged by it (`left_behind.py`), and so is a platform's `init_backend()` (`lifecycle.py`).
"""

from __future__ import annotations

import builtins
import faulthandler
import gc
import hashlib
import json
import locale
import logging
import multiprocessing
import os
import pickle
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["SETTINGS", "TRACES", "LeftTrace", "changes", "read_all"]


class LeftTrace(NamedTuple):
    """One thing. `group` is the check that judges it, `says` what it is called there; `read()` gives plain types: a
    dict, whose entries are compared one by one, a list, of which only what was added counts, or a single value."""

    name: str
    group: str
    says: str
    read: Callable[[], Any]


def read_all(groups: Iterable[str]) -> dict[str, Any]:
    """Every trace of these groups, as it is now."""
    chosen = set(groups)
    return {trace.name: trace.read() for trace in TRACES if trace.group in chosen}


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[str]]:
    """group -> what differs, in words."""
    found: dict[str, list[str]] = {}
    for trace in TRACES:
        if trace.name in before:
            told = list(_differences(trace, before[trace.name], after[trace.name]))
            if told:
                found.setdefault(trace.group, []).extend(told)
    return found


def _differences(trace: LeftTrace, old: Any, new: Any) -> Iterable[str]:
    if isinstance(old, dict):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield f"{trace.says} {key} is {new.get(key)!r}, it was {old.get(key)!r}"
    elif isinstance(old, list):
        left = list(new)
        for one in old:
            if one in left:
                left.remove(one)
        if left:
            yield f"{trace.says}: {', '.join(map(str, left))}"
    elif old != new:
        yield f"{trace.says} is {new!r}, it was {old!r}"


def _called(function: Any) -> str:
    """A name by which a function can be found, and told from another of that name."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None)}.{name} at {id(function):#x}"


# The process


def _handlers() -> dict[str, str]:
    return {f"of {one.name}": str(signal.getsignal(one)) for one in signal.Signals}


def _umask() -> str:
    mask = os.umask(0o077)
    os.umask(mask)
    return oct(mask)


def _hooks() -> dict[str, str]:
    places = [(sys, "excepthook"), (sys, "unraisablehook"), (sys, "displayhook"), (sys, "breakpointhook")]
    places += [(threading, "excepthook"), (os, "fspath")]
    found = {f"{module.__name__}.{name}": _called(getattr(module, name)) for module, name in places}
    found["sys.settrace"], found["sys.setprofile"] = str(sys.gettrace()), str(sys.getprofile())
    return found


def _interpreter() -> dict[str, Any]:
    return {
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "dont_write_bytecode": sys.dont_write_bytecode,
        "faulthandler": faulthandler.is_enabled(),
        "socket timeout": socket.getdefaulttimeout(),
        "sys.stdout": _called(sys.stdout),
        "sys.stderr": _called(sys.stderr),
        "sys.argv": str(sys.argv),
    }


def _collector() -> dict[str, Any]:
    return {
        "enabled": gc.isenabled(),
        "threshold": list(gc.get_threshold()),
        "frozen": gc.get_freeze_count() > 0,
        "callbacks": [_called(one) for one in gc.callbacks],
        "debug": gc.get_debug(),
    }


def _limits() -> dict[str, Any]:
    names = ("RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_AS", "RLIMIT_STACK", "RLIMIT_MEMLOCK")
    found: dict[str, Any] = {name: list(resource.getrlimit(getattr(resource, name))) for name in names}
    found["niceness"] = os.nice(0)
    if hasattr(os, "sched_getaffinity"):
        found["processors"] = sorted(os.sched_getaffinity(0))
    return found


def _random() -> dict[str, str]:
    found = {"random": _digest(repr(random.getstate()).encode())}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        found["numpy.random"] = _digest(pickle.dumps(numpy.random.get_state()))
    if torch is not None:
        found["torch"] = _digest(bytes(torch.random.get_rng_state().tolist()))
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _children() -> list[str]:
    found = []
    for task in Path("/proc/self/task").iterdir() if Path("/proc/self/task").exists() else ():
        try:
            for child in (task / "children").read_text().split():
                words = (
                    Path("/proc", child, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                found.append(f"{words.strip() or 'a process that nobody waited for'} (pid {child})")
        except OSError:
            continue
    return found


# Logging


def _root_logger() -> dict[str, Any]:
    root = logging.getLogger()
    return {
        "level": root.level,
        "handlers": [_called(one) for one in root.handlers],
        "filters": [_called(one) for one in root.filters],
        "disabled up to": root.manager.disable,
        "class": _called(logging.getLoggerClass()),
        "record factory": _called(logging.getLogRecordFactory()),
    }


def _host_loggers() -> dict[str, str]:
    """Of the host and of what it is made of; a logger as it is made is not told."""
    found = {}
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in (
            "sglang",
            "torch",
            "transformers",
        ):
            set_up = (logger.level, len(logger.handlers), logger.propagate, logger.disabled)
            if set_up != (logging.NOTSET, 0, True, False):
                found[name] = "level {}, {} handlers, propagate {}, disabled {}".format(*set_up)
    return found


def _filters() -> list[str]:
    return [" ".join(str(getattr(part, "pattern", part)) for part in one) for one in warnings.filters]


# Functions of others


_STANDARD = (
    builtins,
    os,
    sys,
    time,
    socket,
    subprocess,
    threading,
    multiprocessing,
    json,
    pickle,
    logging,
    signal,
)
_TORCH = ("", ".Tensor", ".nn.Module", ".nn.functional", ".cuda", ".distributed", ".accelerator", ".random")


def _functions() -> dict[str, str]:
    found = {}
    for module in _STANDARD:
        for name, value in vars(module).items():
            if callable(value) and f"{module.__name__}.{name}" not in ("builtins._", "sys.excepthook"):
                found[f"{module.__name__}.{name}"] = _called(value)
    torch = sys.modules.get("torch")
    for place in _TORCH if torch is not None else ():
        owner: Any = torch
        for part in filter(None, place.split(".")):
            owner = getattr(owner, part)
        found |= {
            f"torch{place}.{name}": _called(value) for name, value in vars(owner).items() if callable(value)
        }
    return found


_known: dict[str, str] = {}


def _existing() -> dict[str, str]:
    """The functions that were there at the first reading. One that is new replaces nothing: a device adds its own."""
    now = _functions()
    if not _known:
        _known.update(now)
    return {name: now.get(name, "gone") for name in _known}


# torch


def _torch() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "threads": torch.get_num_threads(),
        "threads between operators": torch.get_num_interop_threads(),
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32 products": torch.get_float32_matmul_precision(),
        "print options": str(vars(torch._tensor_str.PRINT_OPTS)),
        "denormals": float(torch.tensor(1e-40)) == 0.0,
        "tf32": torch.backends.cudnn.allow_tf32,
        "cudnn benchmark": torch.backends.cudnn.benchmark,
        "sharing strategy": torch.multiprocessing.get_sharing_strategy(),
        "function modes": torch._C._len_torch_function_stack(),
    }


TRACES: tuple[LeftTrace, ...] = (
    LeftTrace("environment", "process", "the variable", lambda: dict(os.environ)),
    LeftTrace("folder", "process", "the working directory", os.getcwd),
    LeftTrace("path", "process", "sys.path", lambda: str(sys.path)),
    LeftTrace(
        "finders", "process", "sys.meta_path", lambda: str([_called(type(one)) for one in sys.meta_path])
    ),
    LeftTrace(
        "path hooks", "process", "sys.path_hooks", lambda: str([_called(one) for one in sys.path_hooks])
    ),
    LeftTrace("handlers", "process", "the signal handler", _handlers),
    LeftTrace("umask", "process", "the umask", _umask),
    LeftTrace("locale", "process", "the locale", lambda: locale.setlocale(locale.LC_ALL)),
    LeftTrace("time zone", "process", "the time zone", lambda: str(time.tzname)),
    LeftTrace("hooks", "process", "the hook", _hooks),
    LeftTrace("interpreter", "process", "the interpreter's", _interpreter),
    LeftTrace("collector", "process", "the garbage collector's", _collector),
    LeftTrace("limits", "process", "the process's", _limits),
    LeftTrace(
        "start method",
        "process",
        "the start method of multiprocessing",
        lambda: multiprocessing.get_start_method(allow_none=True),
    ),
    LeftTrace("random", "process", "the state of the random numbers of", _random),
    LeftTrace("threads", "threads", "threads run on", lambda: [one.name for one in threading.enumerate()]),
    LeftTrace("children", "children", "child processes are left", _children),
    LeftTrace("root logger", "logging", "the root logger's", _root_logger),
    LeftTrace("loggers", "logging", "the logger", _host_loggers),
    LeftTrace("warnings", "logging", "warnings are filtered by", _filters),
    LeftTrace("shown warnings", "logging", "warnings.showwarning", lambda: _called(warnings.showwarning)),
    LeftTrace("torch", "torch", "torch's", _torch),
    LeftTrace("functions", "functions", "the function", _existing),
)
"""All of them. A new one is a line here."""

SETTINGS = (
    "torch's default",
    "torch's threads",
    "torch's gradients",
    "torch's inference",
    "torch's deterministic",
    "torch's float32 products",
    "torch's function modes",
    "the root logger's",
    "the logger",
    "the start method",
    "the working directory",
    "the umask",
    "the locale",
    "the time zone",
    "the signal handler",
    "the hook",
    "the interpreter's",
    "the garbage collector's",
    "the state of the random numbers",
    "child processes are left",
)
"""How those of them begin that code of a platform must leave alone wherever it is: `init_backend()` is there to set
variables, start threads and load libraries, and not these."""
