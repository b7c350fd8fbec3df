"""A source checkout of SGLang in the place of a release: installed as it stands, without a build.

    python -m ...versions.checkout FOLDER                  # its version
    python -m ...versions.checkout FOLDER --into SITE      # the same, and an environment that has it

The sources lie in `python/sglang`. What belongs to an installation is written beside them in the environment: a path,
and the metadata with the version. SGLang's own build would ask for compilers, and for CUDA packages.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

from packaging.version import Version

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.sglang.versions import NEWEST

__all__ = ["install", "main", "sources_of", "version_of"]

_DESCRIBED = re.compile(r"v?(?P<tag>\d[\w.]*)-(?P<commits>\d+)-g(?P<commit>[0-9a-f]+)")


def sources_of(folder: Path) -> Path:
    """What goes on the path. Raises ConfigurationError where the folder is no checkout of SGLang."""
    for sources in (folder / "python", folder):
        if (sources / "sglang" / "__init__.py").is_file():
            return sources.resolve()
    raise ConfigurationError(
        f"{folder} is no source checkout of SGLang",
        why="neither python/sglang nor sglang is a package in it",
        fix="give the folder that git made: git clone https://github.com/sgl-project/sglang FOLDER",
    )


def version_of(folder: Path) -> str:
    """As SGLang's build would call it: by the last tag and the commits after it; else by the file that a build left.

    Where neither is known, a development version of the release after the newest that the adapter knows.
    """
    sources = sources_of(folder)
    described = _DESCRIBED.fullmatch(_git(folder, "describe", "--tags", "--long", "--match", "v*"))
    if described is not None:
        tag, commit = Version(described["tag"]), f"g{described['commit']}"
        if described["commits"] == "0":
            return str(tag)
        return f"{_after(tag)}.dev{described['commits']}+{commit}"
    left = sources / "sglang" / "_version.py"
    written = re.search(r"^__version__.*?= *'([^']+)'", left.read_text(), re.M) if left.is_file() else None
    if written is not None:
        return written[1]
    commit = _git(folder, "rev-parse", "--short", "HEAD")
    return f"{_after(Version(NEWEST))}.dev0+{f'g{commit}' if commit else 'checkout'}"


def install(folder: Path, site: Path) -> str:
    """Make the environment of this `site-packages` have the checkout, before whatever SGLang it shares; its version."""
    version, sources = version_of(folder), sources_of(folder)
    for older in site.glob("sglang-*.dist-info"):
        for file in older.iterdir():
            file.unlink()
        older.rmdir()
    metadata = site / f"sglang-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
    (metadata / "RECORD").write_text("")
    # Paths are taken from such files in the order of their names, and this one goes before what is shared.
    (site / "0_sglang_checkout.pth").write_text(f"{sources}\n")
    return version


def _after(release: Version) -> str:
    """The release that a development version leads to: the last number one higher, of a release candidate itself."""
    if release.is_prerelease:
        return release.base_version
    *first, last = release.release
    return ".".join(map(str, [*first, last + 1]))


def _git(folder: Path, *words: str) -> str:
    """What git answers; nothing where the folder is not the root of a repository of its own, or there is no git."""
    if not (folder / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--into", type=Path, metavar="SITE")
    options = parser.parse_args()
    print(version_of(options.folder) if options.into is None else install(options.folder, options.into))


if __name__ == "__main__":
    main()
