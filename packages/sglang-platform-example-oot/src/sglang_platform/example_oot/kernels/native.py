"""Builds the C++ kernels of `csrc/` on the machine that runs them, once, and loads them.

A vendor changes the compiler and its flags, or drops the file where the wheel ships the library built. Without
`csrc/` plain torch serves.

The library lies in a cache directory (SGLANG_EXAMPLE_OOT_CACHE, by default under the user's), under a name made of
everything its machine code depends on. SGLANG_EXAMPLE_OOT_NATIVE: `0` never builds, `1` fails where the build
fails, and unset falls back to the plain torch implementations with the reason on stderr. SGLANG_EXAMPLE_OOT_CXXFLAGS
are flags for the compiler after ours, as for a sanitizer.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from sglang_platform.core.errors import ConfigurationError, PlatformError

from sglang_platform.example_oot.kernels import build_cache

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
    if wish == "0" or not SOURCES.is_dir():
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
    cache, name = cache_directory(), _fingerprint()
    library = cache / f"kernels-{name}.so"
    if build_cache.whole(library):
        build_cache.check_ours(cache)
        return library
    build_cache.make_directory(cache)
    failure = library.with_suffix(".failed")
    with build_cache.exclusive(cache, name, _say):
        found = build_cache.whole(library)
        if found:
            return library
        if found is False:
            _say(f"{library} is not what was built ({library.stat().st_size} bytes); building it again")
        if not retry and failure.exists() and time.time() - failure.stat().st_mtime < SECONDS_TO_RETRY:
            raise RuntimeError(f"{failure.read_text()}\n(remembered for some minutes in {failure})")
        build_cache.remove_left_overs(cache, name)
        try:
            _build(library, cache / f"build-{name}")
        except Exception as error:
            with contextlib.suppress(OSError):  # the disk may be full
                failure.write_text(str(error))
            raise
        failure.unlink(missing_ok=True)
    return library


def _build(library: Path, directory: Path) -> None:
    """Compile in `directory`, which is gone afterwards."""
    from torch.utils import cpp_extension

    _say(f"building the CPU kernels, once, into {library.parent}; this takes a minute or so")
    started = time.perf_counter()
    directory.mkdir(mode=0o700)
    try:
        with _ninja_on_path():
            path = cpp_extension.load(
                name="sglang_example_oot_kernels",
                sources=[str(path) for path in _units(directory)],
                extra_cflags=_flags(),
                build_directory=str(directory),
                is_python_module=False,
                is_standalone=False,
            )
        build_cache.keep(Path(path) if path else directory / "sglang_example_oot_kernels.so", library)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    _say(f"built in {time.perf_counter() - started:.1f} s")


def _units(directory: Path) -> list[Path]:
    """The translation units: the two large kernels, and the rest in two, since torch's headers cost the most."""
    alone = [SOURCES / "decode.cpp", SOURCES / "extend.cpp"]
    together = {"kernels": SOURCES.glob("*.cpp"), "device": (SOURCES / "device").glob("*.cpp")}
    units = []
    for name, paths in together.items():
        includes = [f'#include "{path}"\n' for path in sorted(paths) if path not in alone]
        units.append(directory / f"{name}_unit.cpp")
        units[-1].write_text("".join(includes))
    return [*units, *alone]


def _flags() -> list[str]:
    return [*FLAGS, *shlex.split(os.environ.get("SGLANG_EXAMPLE_OOT_CXXFLAGS", ""))]


def _fingerprint() -> str:
    """Names the machine code: sources, flags, compiler and its version, torch, Python, processor."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in (".cpp", ".h"):
            digest.update(path.name.encode() + path.read_bytes())
    compiler = os.environ.get("CXX", "c++")
    for text in (
        torch.__version__,
        *_flags(),
        compiler,
        shutil.which(compiler) or "",
        _compiler_version(compiler),
        sys.version,
        *_cpu_features(),
    ):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:20]


def _compiler_version(compiler: str) -> str:
    """The compiler's version output, since an update keeps its path; empty without a compiler."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            [*shlex.split(compiler), "--version"], capture_output=True, text=True, timeout=60, check=False
        ).stdout
    return ""


def _cpu_features() -> Iterator[str]:
    """The CPU features that `-march=native` depends on."""
    yield platform.machine()
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        yield from sorted(
            set(re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", text, re.MULTILINE))
        )


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
