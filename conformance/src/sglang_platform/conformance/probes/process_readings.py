"""What a process is like: its settings, what it holds open, its loggers. Each reading gives plain types."""

from __future__ import annotations

import asyncio
import contextlib
import decimal
import faulthandler
import gc
import hashlib
import logging
import math
import os
import pickle
import random
import re
import resource
import signal
import socket
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "AllowedUse",
    "called",
    "children",
    "collector",
    "descriptors",
    "digest",
    "false_modules",
    "filters",
    "handlers",
    "hooks",
    "host_loggers",
    "interpreter",
    "limits",
    "listening",
    "open_files",
    "operators_variables",
    "other_variables",
    "random_states",
    "root_logger",
    "timers",
    "umask",
]


def called(function: Any) -> str:
    """A name by which a function can be found, and told from another of that name."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None)}.{name} at {id(function):#x}"


# Variables


_OF_EVERYBODY = re.compile(
    r"(https?|ftp|all|no)_proxy|home|user|shell|path|tmpdir|tz|lang|language|lc_\w+|python\w+|hf_\w+|transformers_\w+"
    r"|ssl_cert_\w+|\w+_ca_bundle",
    re.IGNORECASE,
)
"""Names of variables that are for all programs and libraries, and no device's."""

_first: dict[str, str] = {}


def operators_variables() -> dict[str, str]:
    """Those that were there at the first reading, and those for all programs. A list that is only longer, as of folders
    to search, is told as it was."""
    now = dict(os.environ)
    if not _first:
        _first.update(now)
    found = {}
    for name, value in now.items():
        was = _first.get(name)
        if was is not None:
            longer = set(was.split(os.pathsep)) <= set(value.split(os.pathsep))
            found[name] = was if longer else value
        elif _OF_EVERYBODY.fullmatch(name):
            found[name] = value
    return found


def other_variables() -> dict[str, str]:
    known = operators_variables()
    return {name: value for name, value in os.environ.items() if name not in known}


# The process


def handlers() -> dict[str, str]:
    return {f"of {one.name}": str(signal.getsignal(one)) for one in signal.Signals}


def umask() -> str:
    mask = os.umask(0o077)
    os.umask(mask)
    return oct(mask)


def hooks() -> dict[str, str]:
    places = [(sys, "excepthook"), (sys, "unraisablehook"), (sys, "displayhook"), (sys, "breakpointhook")]
    places += [(threading, "excepthook"), (os, "fspath")]
    found = {f"{module.__name__}.{name}": called(getattr(module, name)) for module, name in places}
    found["sys.settrace"], found["sys.setprofile"] = str(sys.gettrace()), str(sys.getprofile())
    return found


def interpreter() -> dict[str, Any]:
    return {
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "dont_write_bytecode": sys.dont_write_bytecode,
        "faulthandler": faulthandler.is_enabled(),
        "socket timeout": socket.getdefaulttimeout(),
        "stack of new threads": threading.stack_size(),
        "temporary folder": tempfile.gettempdir(),
        "policy of event loops": called(asyncio.get_event_loop_policy()),
        "flags of dlopen": getattr(sys, "getdlopenflags", int)(),
        "decimals": (decimal.getcontext().prec, decimal.getcontext().rounding),
        "sys.stdout": called(sys.stdout),
        "sys.stderr": called(sys.stderr),
        "sys.argv": str(sys.argv),
    }


def collector() -> dict[str, Any]:
    return {
        "enabled": gc.isenabled(),
        "threshold": list(gc.get_threshold()),
        "frozen": gc.get_freeze_count() > 0,
        "callbacks": [called(one) for one in gc.callbacks],
        "debug": gc.get_debug(),
    }


class AllowedUse(NamedTuple):
    """What the process may use, and how far it may raise that."""

    soft: int
    hard: int

    @property
    def holds(self) -> float:
        return math.inf if self.soft == resource.RLIM_INFINITY else self.soft


def limits() -> dict[str, Any]:
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    found: dict[str, Any] = {name: AllowedUse(*resource.getrlimit(getattr(resource, name))) for name in names}
    found["niceness"] = os.nice(0)
    found["session"], found["process group"] = os.getsid(0), os.getpgid(0)
    if hasattr(os, "sched_getscheduler"):
        found["scheduling"] = os.sched_getscheduler(0)
    score = Path("/proc/self/oom_score_adj")
    if score.exists():
        found["score when memory is out"] = score.read_text().strip()
    if hasattr(os, "sched_getaffinity"):
        found["processors"] = sorted(os.sched_getaffinity(0))
    return found


def random_states() -> dict[str, str]:
    found = {"random": digest(repr(random.getstate()).encode())}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        found["numpy.random"] = digest(pickle.dumps(numpy.random.get_state()))
    if torch is not None:
        found["torch"] = digest(bytes(torch.random.get_rng_state().tolist()))
    return found


def timers() -> dict[str, bool]:
    names = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
    return {name: signal.getitimer(getattr(signal, name))[0] > 0 for name in names}


def descriptors() -> Iterator[Path]:
    """The open files of this process, that of the listing among them; none where the system does not tell."""
    folder = Path("/proc/self/fd")
    yield from folder.iterdir() if folder.exists() else ()


def open_files() -> list[str]:
    """What the descriptors lead to; none where the system does not tell."""
    found = []
    for one in descriptors():
        with contextlib.suppress(OSError):  # the one that lists them
            found.append(f"{one.readlink()} ({one.name})")
    return found


def listening() -> list[str]:
    """The addresses at which sockets of this process wait for others; none where the system does not tell."""
    found = []
    for one in descriptors():
        with contextlib.suppress(OSError):  # the one that lists them
            if one.is_socket():
                with socket.socket(fileno=os.dup(int(one.name))) as each:
                    if each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        found.append(str(each.getsockname()))
    return found


def false_modules() -> list[str]:
    """Modules that were made and not imported."""
    return [
        name
        for name, module in sys.modules.copy().items()
        if isinstance(module, types.ModuleType)
        and getattr(module, "__spec__", None) is None
        and name not in ("__main__", "cython_runtime")  # compiled modules make the second
        and not name.startswith("_")
    ]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def children() -> list[str]:
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


def root_logger() -> dict[str, Any]:
    root = logging.getLogger()
    return {
        "level": root.level,
        "handlers": [called(one) for one in root.handlers],
        "filters": [called(one) for one in root.filters],
        "disabled up to": root.manager.disable,
        "class": called(logging.getLoggerClass()),
        "record factory": called(logging.getLogRecordFactory()),
    }


def host_loggers() -> dict[str, str]:
    """Of the host and of what it is made of; a logger as it is made is not told, nor are those that torch sets up for
    its artifacts (`torch._inductor.codecache.__autotuning`) as its modules are imported."""
    found = {}
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in (
            "sglang",
            "torch",
            "transformers",
        ):
            set_up = (logger.level, len(logger.handlers), logger.propagate, logger.disabled)
            if set_up != (logging.NOTSET, 0, True, False) and ".__" not in name:
                found[name] = "level {}, {} handlers, propagate {}, disabled {}".format(*set_up)
    return found


def filters() -> list[str]:
    """The first is told twice: one that was there already may have been put before the others."""
    found = [" ".join(str(getattr(part, "pattern", part)) for part in one) for one in warnings.filters]
    return [*found, *(f"{one}, before all others" for one in found[:1])]
