"""Programs in forks of one process that has imported what SGLang imports of others: most of what its start takes.

SGLang, core and the plugins are imported by each program itself, with its own variables. This file is the process too.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["run_warm"]

_IMPORTED = (
    "torch",
    "torchvision",
    "torch._dynamo.repro.after_dynamo",
    "torch._inductor.compile_fx",
    "triton",
    "transformers",
    "transformers.activations",
    "transformers.image_processing_utils",
    "transformers.modeling_gguf_pytorch_utils",
    "transformers.modeling_layers",
    "aiohttp",
    "IPython.display",
    "compressed_tensors.config",
    "gguf",
    "importlib_metadata",
    "pydantic",
    "requests",
    "starlette.routing",
    "zmq.auth.thread",
)
"""What is not installed is left out."""


def run_warm(
    program: Path, *arguments: str, timeout: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in such a fork, in this process's folder and with its variables or those given."""
    return _warm().run([str(program), *arguments], timeout, environment or os.environ)


@cache
def _warm() -> _WarmInterpreter:
    interpreter = _WarmInterpreter()
    atexit.register(interpreter.close)
    return interpreter


class _WarmInterpreter:
    """One program at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # nothing that is there stays unseen by select()
        )

    def run(
        self, command: Sequence[str], timeout: float, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        pid = None
        with tempfile.TemporaryDirectory(prefix="warm-") as folder:
            outputs = [Path(folder) / name for name in ("stdout", "stderr")]
            try:
                self._write(
                    command=command,
                    environment=dict(environment),
                    folder=str(Path.cwd()),
                    outputs=[str(one) for one in outputs],
                )
                pid = self._read()
                if not select.select([self._process.stdout], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(command, timeout)
                status = self._read()
            except BaseException:
                # Too late, or interrupted, as by a test's limit: the next answer would be this program's.
                self._process.kill()
                _warm.cache_clear()
                if pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                raise
            said = [one.read_text(errors="replace") for one in outputs]
        return subprocess.CompletedProcess(command, status, *said)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _write(self, **request: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")

    def _read(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


# In the warm process


def _forked() -> dict[str, Any]:
    """The request for a program, in a fork made for it."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            request: dict[str, Any] = json.loads(line)
            return request
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    raise SystemExit


def _become(request: dict[str, Any], path: Sequence[str]) -> ModuleType:
    """Be the process of that program, as if it was started by its name. `path` is what every process imports from."""
    os.setpgid(0, 0)
    for name, descriptor in zip((os.devnull, *request["outputs"]), range(3), strict=True):
        file = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(file, descriptor)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["command"]
    sys.path = [str(Path(sys.argv[0]).parent), *_named_in_variables(), *path]
    importlib.invalidate_caches()
    main = ModuleType("__main__")
    main.__file__ = sys.argv[0]
    sys.modules["__main__"] = main
    return main


def _named_in_variables() -> list[str]:
    return [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]


if __name__ == "__main__":
    every = sys.path[1 + len(_named_in_variables()) :]
    for one in _IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(one)
    program = _become(_forked(), every)
    exec(compile(Path(sys.argv[0]).read_bytes(), sys.argv[0], "exec"), program.__dict__)
