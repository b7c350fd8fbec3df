"""Files that two distributions with plugins have both installed: the later installation has overwritten the earlier.

A launch does not look for them, since it would read the RECORD of each distribution.
"""

from __future__ import annotations

from collections.abc import Iterator

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.damaged_install import CORE
from sglang_platform.core.doctor.damaged_files import installed_files
from sglang_platform.core.doctor.finding import Finding

__all__ = ["examine_shared_files"]

_SHOWN = 3


def examine_shared_files() -> Iterator[Finding]:
    """A finding for each two distributions that share files: a problem if they recorded different contents."""
    origins = {record.origin.distribution: record.origin for record in scan.scan().records}
    files = {name: dict(installed_files(name)) for name in sorted({CORE, *filter(None, origins)})}
    names = list(files)
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            shared = sorted(files[first].keys() & files[second].keys())
            if shared:
                differ = any(files[first][file] != files[second][file] for file in shared)
                more = f" and {len(shared) - _SHOWN} more" if len(shared) > _SHOWN else ""
                yield Finding(
                    "files-shared",
                    "problem" if differ else "warning",
                    f"{first} and {second} install the same files: {', '.join(shared[:_SHOWN])}{more}",
                    origins.get(second) or origins.get(first),
                    "the one that was installed last has overwritten them"
                    + (", and the contents differ" if differ else ""),
                    f"keep one: pip uninstall {first}, then pip install --force-reinstall --no-deps {second}; or the "
                    f"other way round",
                )
