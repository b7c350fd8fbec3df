"""Checks of the metadata: entry points that SGLang finds and that resolve, requirements, missing files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from sglang_platform.core.contract.version import CONTRACT_VERSION
from sglang_platform.core.discovery.groups import CONTRACT_GROUP, KNOWN_GROUPS, meant_group
from sglang_platform.core.discovery.kind import KINDS, PLUGIN_GROUPS
from sglang_platform.core.doctor.entry_points import reference
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.check.project import Project
from sglang_platform.devtools.check.remark import Level, Remark
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["examine_packaging"]

_CORE = b"sglang_platform.core"
_MOST_NOWHERE = 50
"""The most broken entry points that are reported one by one."""


def examine_packaging(
    project: Project, tree: SourceTree, host_version: str | None, root: Path | None
) -> Iterator[Remark]:
    """The remarks on the metadata. `host_version`: the SGLang to check against; `root`: the folder of named files."""
    yield from project.problems
    if project.problems:
        return
    yield from _entry_points(project, tree)
    yield from _contract(project, tree)
    yield from _requirements(project, host_version)
    yield from _python(project)
    for name in project.files:
        if root is None or not (root / name).is_file():
            yield _remark(
                project, "file-missing", "problem", f"{name} is named in the metadata and is not there", name
            )


def _entry_points(project: Project, tree: SourceTree) -> Iterator[Remark]:
    lookup = Lookup(tree, Lookup(Environment()))
    found, nowhere = False, 0
    for group, entries in project.entry_points.items():
        meant = meant_group(group)
        if group not in KNOWN_GROUPS and (meant or group.startswith(("sglang.", "sglang_platform."))):
            fix = f"move it to {meant}" if meant else "remove it"
            yield _remark(
                project,
                "group-unread",
                "problem" if meant else "warning",
                f"nobody reads the entry-point group {group}",
                group,
                fix=fix,
            )
        if group not in KNOWN_GROUPS:
            continue
        found |= group in PLUGIN_GROUPS
        for name, value in entries.items() if group in PLUGIN_GROUPS else ():
            why = _nowhere(value, lookup)
            nowhere += why is not None
            if why and nowhere <= _MOST_NOWHERE:
                yield _remark(
                    project,
                    "entry-point-nowhere",
                    "problem",
                    f"the entry point {name} leads nowhere",
                    name,
                    why,
                    f"correct {name} = {value}",
                )
    if nowhere > _MOST_NOWHERE:
        what = f"{nowhere - _MOST_NOWHERE} more entry points lead nowhere"
        yield _remark(project, "entry-point-nowhere", "problem", what, "entry-points")
    if not found:
        groups = " or ".join(PLUGIN_GROUPS)
        yield _remark(
            project,
            "no-entry-point",
            "problem",
            "SGLang does not find the plugin",
            "entry-points",
            "it has no entry point in a group that SGLang reads",
            f"write one in {groups}",
        )


def _contract(project: Project, tree: SourceTree) -> Iterator[Remark]:
    """A problem for each platform of a plugin that uses core's contract and does not state its version."""
    stated = project.entry_points.get(CONTRACT_GROUP, {})
    names = {name: kind.group for kind in KINDS for name in project.entry_points.get(kind.group, {})}
    unstated = [name for name in names if name not in stated]
    if not unstated or not any(_CORE in tree.text(name) for name in tree.served()):
        return
    for name in unstated:
        yield _remark(
            project,
            "contract-unstated",
            "problem",
            f"{name} is built on core's contract and does not state its version",
            names[name],
            "after an upgrade of core nothing would tell that the two do not fit",
            f'write [project.entry-points."{CONTRACT_GROUP}"] with {name} = "v{CONTRACT_VERSION}"',
        )


def _nowhere(value: str, lookup: Lookup) -> str | None:
    """Why `pkg.mod:attribute` names nothing; None if it resolves, or if the sources do not show it."""
    module, attribute = reference(value)
    if not module or not attribute:
        return f"{value!r} is no reference of the form pkg.mod:function"
    if lookup.at_home(module) is None:
        return f"there is no module {module}"
    answer = lookup.find(Address(module, tuple(attribute.split("."))))
    if not isinstance(answer, Absent):
        return None
    close = [one.partition(":")[2] for one in answer.nearest if one.startswith(f"{module}:")]
    return answer.why + (f"; did you mean {close[0]}?" if close else "")


def _requirements(project: Project, host_version: str | None) -> Iterator[Remark]:
    names = set()
    for text in project.requirements:
        try:
            wanted = Requirement(text)
        except InvalidRequirement as error:
            yield _remark(
                project,
                "requirement-unread",
                "problem",
                f"the requirement {text!r} cannot be read",
                text,
                str(error).partition("\n")[0],
                "correct it",
            )
            continue
        name = canonicalize_name(wanted.name)
        names.add(name)
        if (
            name == "sglang"
            and host_version
            and not wanted.specifier.contains(host_version, prereleases=True)
        ):
            yield _remark(
                project,
                "host-excluded",
                "warning",
                f"the requirement {text!r} leaves out SGLang {host_version}",
                "sglang",
                "pip would install another release than the one that was checked",
                "widen the requirement where the check is clean",
            )
    if not names & {"sglang", "sglang-platform-core"}:
        yield _remark(
            project,
            "host-unstated",
            "note",
            "no requirement says which SGLang the plugin is for",
            "dependencies",
            fix='write "sglang>=FIRST,<NEXT" in an extra, so that an operator knows',
        )


def _python(project: Project) -> Iterator[Remark]:
    if project.requires_python is None:
        yield _remark(
            project,
            "python-unstated",
            "warning",
            "the metadata does not say for which Python",
            "project",
            fix='write requires-python = ">=3.10"',
        )
        return
    try:
        wanted = SpecifierSet(project.requires_python)
    except InvalidSpecifier:
        yield _remark(
            project,
            "python-unread",
            "problem",
            f"requires-python {project.requires_python!r} cannot be read",
            "requires-python",
            fix='write ">=3.10"',
        )
        return
    if not any(wanted.contains(f"3.{minor}") for minor in (10, 11, 12, 13)):
        yield _remark(
            project,
            "python-excluded",
            "problem",
            f"requires-python {project.requires_python!r} has no Python that SGLang runs on",
            "requires-python",
            fix='write ">=3.10"',
        )


def _remark(
    project: Project,
    name: str,
    level: Level,
    what: str,
    word: str,
    why: str | None = None,
    fix: str | None = None,
) -> Remark:
    return Remark("packaging", name, level, what, project.file, project.line_of(word) or 1, why, fix)
