"""The version of all distributions, which is core's: print it, set it, or compare it with a tag.

python .ci/version.py               # print it; fails where a distribution disagrees
python .ci/version.py 0.2.0         # write it everywhere, and begin its section in each changelog
python .ci/version.py --tag v0.2.0  # fails unless the tag is the version, and each changelog has its section
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = [*sorted((ROOT / "packages").iterdir()), ROOT / "conformance"]


def current() -> str:
    text = (ROOT / "packages" / "sglang-platform-core" / "pyproject.toml").read_text()
    return re.findall(r'^version = "([^"]+)"', text, re.M)[0]


def with_version(text: str, version: str) -> str:
    """A pyproject.toml with this version: its own, the pins on our packages, and a vendor's range of them."""
    major, minor = map(int, version.split(".")[:2])
    text = re.sub(r'^version = "[^"]+"', f'version = "{version}"', text, count=1, flags=re.M)
    text = re.sub(r"(\"sglang-platform-[a-z-]+)==[^\"]+", rf"\g<1>=={version}", text)
    allowed = rf"\g<1>>={major}.{minor},<{major}.{minor + 1}"
    return re.sub(r"(\"sglang-platform-[a-z-]+)>=[^\"]+", allowed, text)


def disagreeing(version: str) -> list[str]:
    files = [folder / "pyproject.toml" for folder in FOLDERS]
    return [
        str(one.relative_to(ROOT))
        for one in files
        if with_version(one.read_text(), version) != one.read_text()
    ]


def without_section(version: str) -> list[str]:
    """The changelogs without a section for this version."""
    files = [folder / "CHANGELOG.md" for folder in FOLDERS]
    return [str(one.relative_to(ROOT)) for one in files if f"\n## {version} - " not in one.read_text()]


def write(version: str) -> None:
    section = f"## Unreleased\n\n## {version} - {datetime.date.today().isoformat()}"
    for folder in FOLDERS:
        project, changes = folder / "pyproject.toml", folder / "CHANGELOG.md"
        project.write_text(with_version(project.read_text(), version))
        changes.write_text(
            re.sub(r"^## \[?Unreleased\]?$", section, changes.read_text(), count=1, flags=re.M)
        )


def main(arguments: list[str]) -> str | None:
    """Why it fails, or None."""
    if arguments[:1] not in ([], ["--tag"]):
        if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", arguments[0]):
            return f"{arguments[0]!r} is no version such as 0.2.0 or 0.2.0rc1"
        write(arguments[0])
    version = current()
    print(version)
    wrong = disagreeing(version)
    if wrong:
        return f"not of version {version}, or not asking for it: {', '.join(wrong)}; write it: .ci/version.py {version}"
    if arguments[:1] != ["--tag"]:
        return None
    if arguments[1:] != [f"v{version}"]:
        return f"the tag is {' '.join(arguments[1:]) or 'missing'}, and the version is {version}"
    missing = without_section(version)
    return f"no section {version!r} in {', '.join(missing)}" if missing else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
