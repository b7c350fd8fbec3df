"""Level 1: what the plugin's metadata requires of pip is what this environment has."""

from __future__ import annotations

import platform
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.checks.packaging import installed, metadata_of
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.discovery.distribution import normalize

__all__: list[str] = []


@check(
    level=Level.PACKAGING,
    fix="pip install what is missing, or correct the requirement in pyproject.toml: the plugin is judged in an"
    " environment that pip would not have made",
)
def requirements_are_met(subject: Subject) -> None:
    """Every requirement of the distribution that holds here is installed, in a version that it allows, with the extras
    that it names; what its own extras require is in an allowed version where it is installed; Python is one that it
    allows."""
    record = installed(subject)
    about = metadata_of(record)
    problems = [problem for text in about.requires or [] for problem in _problems(text, about)]
    python = about.metadata.get("Requires-Python")
    if python and not SpecifierSet(python).contains(platform.python_version(), prereleases=True):
        problems.append(f"Python {python} is required, and this is {platform.python_version()}")
    expect(not problems, f"{record.origin}: {'; '.join(problems)}")


def _problems(text: str, about: metadata.Distribution) -> list[str]:
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        return [f"{text!r} is no requirement: {error}"]
    always = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
    in_extras = [
        extra
        for extra in about.metadata.get_all("Provides-Extra") or []
        if wanted.marker is not None and wanted.marker.evaluate({"extra": extra})
    ]
    if not always and not in_extras:
        return []
    try:
        found = metadata.distribution(wanted.name)
    except metadata.PackageNotFoundError:
        return [f"{wanted.name}{wanted.specifier} is required, and not installed"] if always else []
    whose = "" if always else f" (extra {', '.join(in_extras)})"
    if not wanted.specifier.contains(found.version, prereleases=True):
        return [f"{wanted.name}{wanted.specifier} is required{whose}, and {found.version} is installed"]
    return _of_extras(wanted, found) if always else []


def _of_extras(wanted: Requirement, found: metadata.Distribution) -> list[str]:
    """What the extras that a requirement names lack: they must exist, and what they bring must be installed."""
    known = {normalize(extra): extra for extra in found.metadata.get_all("Provides-Extra") or []}
    problems = []
    for extra in sorted(wanted.extras):
        if normalize(extra) not in known:
            problems.append(
                f"{wanted.name}[{extra}] is required, and {wanted.name} {found.version} has no such extra"
            )
            continue
        for text in found.requires or []:
            brought = Requirement(text)
            if brought.marker is None or brought.marker.evaluate({"extra": ""}):
                continue
            if brought.marker.evaluate({"extra": known[normalize(extra)]}):
                try:
                    metadata.distribution(brought.name)
                except metadata.PackageNotFoundError:
                    problems.append(
                        f"{wanted.name}[{extra}] is required, and {brought.name} is not installed"
                    )
    return problems
