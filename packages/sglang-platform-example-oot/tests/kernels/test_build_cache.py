"""What is built is kept whole, is this user's, and is built by one process at a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sglang_platform.example_oot.kernels import build_cache, native

PROGRAMS = Path(__file__).parent / "programs"

pytestmark = pytest.mark.skipif(not shutil.which("c++"), reason="there is no compiler")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few lines in the place of the kernels: what is tried here is the cache."""
    directory = tmp_path_factory.mktemp("sources") / "csrc"
    (directory / "device").mkdir(parents=True)
    for name in ("decode", "extend", "rest", "device/device"):
        symbol = name.replace("/", "_")
        (directory / f"{name}.cpp").write_text(f'extern "C" int {symbol}() {{ return 1; }}\n')
    return directory


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def start(sources: Path, cache: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / "build_small.py"), str(sources)],
        env={**os.environ, "SGLANG_EXAMPLE_OOT_CACHE": str(cache), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # its compiler may be ended with it
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed, and its stderr."""
    try:
        out, errors = process.communicate(timeout=120)
    finally:
        end(process)
    return out.strip(), errors


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def build(sources: Path, cache: Path, **environment: str) -> tuple[str, str]:
    return finish(start(sources, cache, **environment))


@pytest.fixture(scope="module")
def _built_once(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which the library was built, and found by the next process."""
    cache = tmp_path_factory.mktemp("built") / "cache"
    library, errors = build(sources, cache)
    assert "built in" in errors, errors
    again, errors = build(sources, cache)
    assert (again, "building" in errors) == (library, False), errors
    return Path(library)


@pytest.fixture
def library(_built_once: Path, cache: Path) -> Path:
    """The library, in the cache of this test."""
    shutil.copytree(_built_once.parent, cache)
    return cache / _built_once.name


@pytest.fixture
def waiting(tmp_path: Path) -> dict[str, str]:
    """Environment of a compiler that waits for a file, and notes its calls."""
    compiler = tmp_path / "c++"
    shutil.copyfile(PROGRAMS / "waiting_compiler.sh", compiler)
    compiler.chmod(0o755)  # a wheel keeps no modes
    return {"CXX": str(compiler), "GO": str(tmp_path / "go"), "CALLS": str(tmp_path / "calls")}


def until(there: Path) -> None:
    deadline = time.monotonic() + 60
    while not there.exists():
        assert time.monotonic() < deadline, f"{there} did not come"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "damage",
    [
        "cut short",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("empty", "other bytes")),
        "no digest",
    ],
)
def test_a_damaged_library_is_built_again_and_said(
    damage: str, library: Path, sources: Path, cache: Path
) -> None:
    whole = library.read_bytes()
    if damage == "no digest":
        library.with_suffix(".sha256").unlink()
    else:
        library.write_bytes({"cut short": whole[: len(whole) // 2], "empty": b""}.get(damage, whole[::-1]))
    again, errors = build(sources, cache)
    assert again == str(library)
    assert f"{library} is not what was built" in errors
    assert build_cache.whole(library)
    assert library.stat().st_size > len(whole) // 2


@pytest.mark.parametrize("kind", ["pipe", "directory", "link to itself"])
@pytest.mark.parametrize("suffix", [".so", ".sha256"])
def test_what_is_no_plain_file_is_told(
    suffix: str, kind: str, library: Path, sources: Path, cache: Path
) -> None:
    path = library.with_suffix(suffix)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "directory":
        path.mkdir(mode=0o700)
    else:
        path.symlink_to(path)
    out, errors = build(sources, cache)
    assert not out
    assert str(path) in errors.splitlines()[-1], errors


def test_a_library_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest comes first, and last the names themselves."""
    cache.mkdir()
    built, library = tmp_path / "built.so", cache / "kernels-a.so"
    built.write_bytes(b"code")
    seen: list[tuple[str, str]] = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(file: int) -> None:
        seen.append(("on the disk", Path(f"/proc/self/fd/{file}").readlink().name))
        fsync(file)

    def noted_replace(path: Path, target: Path) -> Path:
        seen.append(("named", target.name))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    build_cache.keep(built, library)
    assert seen == [
        ("on the disk", "built.sha256"),
        ("named", "kernels-a.sha256"),
        ("on the disk", "built.so"),
        ("named", "kernels-a.so"),
        ("on the disk", "cache"),
    ]
    assert build_cache.whole(library)


def test_two_ranks_build_once(sources: Path, cache: Path, waiting: dict[str, str]) -> None:
    ranks = [start(sources, cache, **waiting) for _ in range(3)]
    until(Path(waiting["CALLS"]))
    time.sleep(1)
    Path(waiting["GO"]).touch()
    results = [finish(rank) for rank in ranks]
    assert len({library for library, _ in results}) == 1, results
    assert sum("built in" in errors for _, errors in results) == 1, results
    assert len(Path(waiting["CALLS"]).read_text().splitlines()) == 4, "each unit is compiled once"


def test_a_stopped_builder_is_named(sources: Path, cache: Path, waiting: dict[str, str]) -> None:
    builder = start(sources, cache, **waiting)
    try:
        until(Path(waiting["CALLS"]))
        os.kill(builder.pid, signal.SIGSTOP)
        library, errors = build(sources, cache, **waiting)
        assert not library
        assert f"process {builder.pid}, which builds the CPU kernels, is stopped" in errors, errors
        os.kill(builder.pid, signal.SIGCONT)
        Path(waiting["GO"]).touch()
        library, _ = finish(builder)
        assert build_cache.whole(Path(library))
    finally:
        end(builder)


def test_what_a_killed_build_left_is_removed(sources: Path, cache: Path, waiting: dict[str, str]) -> None:
    builder = start(sources, cache, **waiting)
    until(Path(waiting["CALLS"]))
    end(builder)
    (left,) = cache.glob("build-*")
    other = cache / "build-of-an-older-version"
    other.mkdir()
    Path(waiting["GO"]).touch()
    library, errors = build(sources, cache, **waiting)
    assert build_cache.whole(Path(library)), errors
    assert not left.exists()
    assert not other.exists()


def test_a_build_of_another_library_is_left_alone(tmp_path: Path, cache: Path) -> None:
    cache.mkdir()
    (cache / "build-b").mkdir()
    with build_cache.exclusive(cache, "b", print):
        build_cache.remove_left_overs(cache, "a")
        assert (cache / "build-b").exists()
    build_cache.remove_left_overs(cache, "a")
    assert not (cache / "build-b").exists()


@pytest.mark.long
def test_what_others_may_write_is_refused(library: Path, sources: Path, cache: Path) -> None:
    library.chmod(0o777)
    out, errors = build(sources, cache)
    assert not out
    assert f"chmod go-w {library}" in errors, errors
    library.chmod(0o755)
    cache.chmod(0o775)
    out, errors = build(sources, cache)
    assert not out
    assert f"chmod go-w {cache}" in errors, errors
    cache.chmod(0o700)
    assert build(sources, cache)[0] == str(library)
    if os.geteuid() == 0:
        os.chown(library, 12345, -1)
        out, errors = build(sources, cache)
        assert not out
        assert "belongs to user 12345" in errors, errors


def test_a_full_disk_is_told_and_leaves_nothing(sources: Path, cache: Path) -> None:
    """On a file system of 16 KiB, in a mount of its own."""
    cache.mkdir(mode=0o700)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small file system")
    mount = f"mount -t tmpfs -o size=16k,mode=700 tmpfs {cache}"
    program = f"{sys.executable} {PROGRAMS / 'build_small.py'} {sources}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && {program}; code=$?; ls -A {cache}; exit $code"],
        env={**os.environ, "SGLANG_EXAMPLE_OOT_CACHE": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "No space left on device" in done.stderr, done.stderr
    assert "build-" not in done.stdout
    assert ".so" not in done.stdout


def test_the_name_holds_the_compilers_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "c++"
    monkeypatch.setenv("CXX", str(compiler))
    names = set()
    for version in ("12.2.0", "13.1.0"):
        compiler.write_text(f"#!/bin/sh\necho {version}\n")
        compiler.chmod(0o755)
        names.add(native._fingerprint())
    assert len(names) == 2
