"""Whether the files of an installed distribution are those that were installed, by the RECORD of its wheel.

A file that is missing, cut short or of another version shows itself as some error of Python, far from its cause. So
where a plugin or core itself fails to load, this is looked at, and the message says what to install again. An editable
installation lists no sources: of it nothing is known.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import csv
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sglang_platform.core.errors import LaunchRefused, PlatformError, PluginOrigin, cause_chain
from sglang_platform.core.installed.distributions import installed_version
from sglang_platform.core.installed.files import LARGEST, Unread, file_bytes, metadata_text

__all__ = ["CORE", "Damage", "damage_behind", "damage_of", "refuse_damage", "told_as_damage"]

CORE = "sglang-platform-core"

_SHOWN = 3
_MAY_COME_OF_IT = (ImportError, SyntaxError, AttributeError, NameError, UnicodeError)


class Damage(NamedTuple):
    """What is wrong with the files of one distribution."""

    distribution: str
    version: str | None
    files: tuple[str, ...]
    """One line each: the file, as RECORD names it, and what is wrong with it."""
    unusable: bool
    """Whether one of them is missing, or is Python that cannot be parsed; else somebody may have changed them."""

    @property
    def why(self) -> str:
        shown = "; ".join(self.files[:_SHOWN])
        more = f"; and {len(self.files) - _SHOWN} more" if len(self.files) > _SHOWN else ""
        return f"files of {self.distribution} are not as they were installed: {shown}{more}"

    @property
    def fix(self) -> str:
        wanted = f"{self.distribution}=={self.version}" if self.version else self.distribution
        return f"install it again: pip install --force-reinstall --no-deps {wanted}"


def damage_of(distribution: str) -> Damage | None:
    """What is wrong with its files; None where nothing is, it is not installed, or its RECORD lists no file."""
    import importlib_metadata

    try:
        found = importlib_metadata.distribution(distribution)
        record = metadata_text(found, "RECORD")
    except (importlib_metadata.PackageNotFoundError, ValueError, OSError):
        return None
    root, version = Path(str(found.locate_file(""))), installed_version(distribution)
    wrong, unusable = [], False
    for line in record.splitlines():
        with contextlib.suppress(csv.Error, StopIteration, ValueError):
            name, digest, size = next(csv.reader([line]))
            # What lies outside, scripts, is written anew by whoever installs.
            if digest and not name.startswith(("/", "..")) and (why := _wrong(root / name, digest, size)):
                wrong.append(f"{name} {why}")
                unusable = unusable or not _is_usable(root / name)
    return Damage(distribution, version, tuple(sorted(wrong)), unusable) if wrong else None


def damage_behind(error: BaseException, distribution: str | None = None) -> Damage | None:
    """The damage of `distribution`, or of core, that may be behind an error of an import; None for other errors."""
    if not any(isinstance(link, _MAY_COME_OF_IT) for link in cause_chain(error)):
        return None
    return (damage_of(distribution) if distribution else None) or damage_of(CORE)


@contextlib.contextmanager
def told_as_damage() -> Iterator[None]:
    """Around imports of core's own modules that a host or a command begins; see `refuse_damage`."""
    try:
        yield
    except Exception as error:
        refuse_damage(error)
        raise


def refuse_damage(error: Exception) -> None:
    """Raises LaunchRefused where core's files are damaged: SGLang drops an `Exception` of a plugin, and serves on."""
    damage = damage_behind(error)
    if damage is None:
        return
    if isinstance(error, PlatformError):  # it tells of the damage itself
        raise LaunchRefused.because(error) from error
    raise LaunchRefused(
        f"{CORE} cannot be loaded",
        plugin=PluginOrigin("sglang_platform_core", CORE, damage.version),
        why=f"{damage.why}\n{type(error).__name__}: {error}",
        fix=damage.fix,
    ) from error


def _is_usable(path: Path) -> bool:
    try:
        text = file_bytes(str(path)) if path.suffix == ".py" else b""
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return path.exists()


def _wrong(path: Path, digest: str, size: str) -> str | None:
    try:
        there = path.stat().st_size
    except OSError as error:
        return "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
    if size and there != int(size):
        return f"has {there} bytes where {size} were installed"
    kind, _, expected = digest.partition("=")
    if path.suffix != ".py" or kind not in hashlib.algorithms_guaranteed or there > LARGEST:
        return None
    try:
        actual = base64.urlsafe_b64encode(hashlib.new(kind, file_bytes(str(path))).digest())
    except Unread as error:
        return f"cannot be read ({error})"
    return None if actual.rstrip(b"=").decode() == expected else "was changed"
