"""Fills a Triton cache for a card that is not here, under the keys that the other machine's Python will ask for.

    pip download --no-deps --only-binary=:all: --python-version 3.12 -d WHEELS triton==3.6.0
    PYTHONPATH=TRITON python benchmarks/gpu_cache.py WHEELS/triton-3.6.0-cp312-*.whl FOLDER/triton_cache.zip

TRITON is the same release of Triton for this Python (`pip install --no-deps --target TRITON triton==3.6.0`). A key of
the cache is a hash of Triton's own files, of the kernel's source and specialisation, of ptxas and the target, and of
the options. Of these only Triton's files differ between Pythons: its compiled library is built for each. So the rows of
`gpu_rows/` are compiled here under the hash that the other Python's wheel has.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import zipfile
from pathlib import Path

GROUPS = ("attention", "memory", "sparse", "ops")


def key_of(wheel: Path) -> str:
    """What `triton.runtime.cache.triton_key` answers where the wheel is installed."""
    import triton

    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.startswith("triton/")]
            archive.extractall(folder, members)
        theirs = Path(folder, "triton")
        if not wheel.name.startswith(f"triton-{triton.__version__}-"):
            raise SystemExit(f"Triton {triton.__version__} is here, the wheel is {wheel.name}")
        return _key(theirs, triton.__version__)


def _key(package: Path, version: str) -> str:
    """Triton's own function over another folder; its order of files is that of `pkgutil`."""
    import pkgutil

    def modules(folder: str, prefix: str) -> list[str]:
        walked = pkgutil.walk_packages([str(package / folder)], prefix=prefix)
        return [str(found.module_finder.find_spec(found.name).origin) for found in walked]  # type: ignore[union-attr, call-arg]

    files = [str(package / "runtime" / "cache.py")]
    files += modules("compiler", "triton.compiler.") + modules("backends", "triton.backends.")
    files += [str(package / "_C" / "libtriton.so"), *modules("language", "triton.language.")]
    return version + "-".join(hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files)


def fill(key: str, target: str, cache: Path) -> int:
    """Compile the smallest case of each row for `target` into `cache`; the kernels that are there then."""
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    import triton.runtime.cache

    triton.runtime.cache.triton_key = lambda: key  # type: ignore[assignment]
    import gpu

    for group in GROUPS:
        sys.argv = [
            "gpu.py",
            "--do",
            "rows",
            "--only",
            group,
            "--quick",
            "--pretend",
            target,
            "--platform",
            "cuda",
        ]
        if gpu.main():
            raise SystemExit(f"a row of {group} does not compile for {target}")
    return len(list(cache.glob("*/*.cubin")))


def pack(cache: Path, file: Path) -> None:
    """What a launch reads, with `@CACHE@` where Triton writes the cache's folder into its lists of files."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(cache.glob("*/*")):
            if path.suffix in (".cubin", ".json"):
                data = path.read_bytes()
                if path.name.startswith("__grp__"):
                    data = data.replace(str(cache).encode(), b"@CACHE@")
                archive.writestr(str(path.relative_to(cache)), data)


def main() -> int:
    """Write the archive."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path, help="Triton's for the other machine's Python")
    parser.add_argument("archive", type=Path)
    parser.add_argument("--target", default="sm_90")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        count = fill(key_of(options.wheel), options.target, Path(cache))
        pack(Path(cache), options.archive)
    size = options.archive.stat().st_size / (1 << 20)
    print(f"{count} kernels for {options.target}, {size:.1f} MiB, under the keys of {options.wheel.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
