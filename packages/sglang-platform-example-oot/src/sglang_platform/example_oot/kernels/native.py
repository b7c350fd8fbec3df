"""Builds the C++ kernels of `csrc/` on the machine that runs them, once, and loads them.

A vendor changes the compiler and its flags, or drops the file where the wheel ships the library built.

The library lies in a cache directory (SGLANG_EXAMPLE_OOT_CACHE, by default under the user's), under a name made of
everything its machine code depends on. SGLANG_EXAMPLE_OOT_NATIVE: `0` never builds, `1` fails where the build
fails, and unset falls back to the plain torch implementations with the reason on stderr.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from sglang_platform.core.errors import ConfigurationError, PlatformError

__all__ = ["cache_directory", "load"]

SOURCES = Path(__file__).parent.parent / "csrc"
# -ffp-contract=fast fuses multiply and add; -ffast-math would change the rounding mode of the whole process.
FLAGS = [
    "-O3",
    "-march=native",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-Wno-psabi",
]
SECONDS_TO_RETRY = 600
PREFIX = "sglang-platform-example-oot:"


def load() -> bool:
    """Load the compiled kernels into this process, building them first if this machine has none yet.

    False: the plain torch implementations must serve. Several processes may call at once; one builds, the others wait.
    """
    wish = os.environ.get("SGLANG_EXAMPLE_OOT_NATIVE", "")
    if wish not in ("", "0", "1"):
        raise ConfigurationError(
            f"SGLANG_EXAMPLE_OOT_NATIVE={wish!r} is not understood", fix="set it to 0 or 1, or leave it unset"
        )
    if wish == "0":
        return False
    try:
        torch.ops.load_library(_built(retry=wish == "1"))
    except Exception as error:  # whatever the compiler, the loader or the file system says
        reason = _last_lines(str(error) or type(error).__name__)
        fix = "install g++ and ninja, or set SGLANG_EXAMPLE_OOT_NATIVE=0 to choose plain torch without trying"
        if wish == "1":
            raise PlatformError("the CPU kernels could not be built", why=reason, fix=fix) from error
        failure = PlatformError(
            "the CPU kernels could not be built; plain torch serves, slower", why=reason, fix=fix
        )
        _say(str(failure))
        return False
    return True


def cache_directory() -> Path:
    """Where built libraries are kept."""
    chosen = os.environ.get("SGLANG_EXAMPLE_OOT_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sglang-platform-example-oot"


def _built(retry: bool) -> Path:
    """The library's path, after building it if need be. `retry` builds again where a build failed a moment ago."""
    cache = cache_directory()
    library = cache / f"kernels-{_fingerprint()}.so"
    if library.exists():
        return library
    cache.mkdir(parents=True, exist_ok=True)
    failure = library.with_suffix(".failed")
    with _exclusive(library.with_suffix(".lock")):
        if library.exists():
            return library
        if not retry and failure.exists() and time.time() - failure.stat().st_mtime < SECONDS_TO_RETRY:
            raise RuntimeError(f"{failure.read_text()}\n(remembered for some minutes in {failure})")
        try:
            _build(library)
        except Exception as error:
            failure.write_text(str(error))
            raise
        failure.unlink(missing_ok=True)
    return library


def _build(library: Path) -> None:
    """Compile into a directory of its own, then move the finished library into place in one step."""
    from torch.utils import cpp_extension

    _say(f"building the CPU kernels, once, into {library.parent}; this takes a minute or so")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as directory, _ninja_on_path():
        path = cpp_extension.load(
            name="sglang_example_oot_kernels",
            sources=[str(path) for path in _units(Path(directory))],
            extra_cflags=FLAGS,
            build_directory=directory,
            is_python_module=False,
            is_standalone=False,
        )
        built = Path(path) if path else Path(directory) / "sglang_example_oot_kernels.so"
        built.replace(library)
    _say(f"built in {time.perf_counter() - started:.1f} s")


def _units(directory: Path) -> list[Path]:
    """What the compiler is given: the two large kernels, and the rest in two, for torch's headers cost the most."""
    alone = [SOURCES / "decode.cpp", SOURCES / "extend.cpp"]
    together = {"kernels": SOURCES.glob("*.cpp"), "device": (SOURCES / "device").glob("*.cpp")}
    units = []
    for name, paths in together.items():
        includes = [f'#include "{path}"\n' for path in sorted(paths) if path not in alone]
        units.append(directory / f"{name}_unit.cpp")
        units[-1].write_text("".join(includes))
    return [*units, *alone]


def _fingerprint() -> str:
    """Names the machine code: sources, flags, compiler, torch, Python, processor."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in (".cpp", ".h"):
            digest.update(path.name.encode() + path.read_bytes())
    compiler = os.environ.get("CXX", "c++")
    for text in (
        torch.__version__,
        *FLAGS,
        compiler,
        shutil.which(compiler) or "",
        sys.version,
        *_cpu_features(),
    ):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:20]


def _cpu_features() -> Iterator[str]:
    """What `-march=native` looks at."""
    yield platform.machine()
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        yield from sorted(
            set(re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", text, re.MULTILINE))
        )


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold a lock that ends with its process, however that ends."""
    import fcntl

    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another process that builds the CPU kernels")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _ninja_on_path() -> Iterator[None]:
    """Let the build find the `ninja` of this Python's environment even where that environment is not activated."""
    before = os.environ.get("PATH", "")
    beside_python = os.pathsep.join([before, str(Path(sys.executable).parent)])
    os.environ["PATH"] = beside_python
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _last_lines(text: str, count: int = 12) -> str:
    return "\n".join([line[:300] for line in text.strip().splitlines()][-count:])


def _say(text: str) -> None:
    print(f"{PREFIX} {text}", file=sys.stderr, flush=True)
