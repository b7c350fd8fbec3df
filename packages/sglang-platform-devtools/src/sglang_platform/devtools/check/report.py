"""The whole check in order, and its report as text."""

from __future__ import annotations

import logging
import re
from collections import Counter
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from rich.text import Text

from sglang_platform.core.cli.page import Page
from sglang_platform.core.errors import visible
from sglang_platform.core.installed.distributions import installed_version
from sglang_platform.core.installed.files import metadata_text
from sglang_platform.devtools.check.couplings import examine_couplings, examine_hooks, unclear_couplings
from sglang_platform.devtools.check.installation import examine_installation
from sglang_platform.devtools.check.packaging import examine_packaging
from sglang_platform.devtools.check.project import (
    Project,
    project_of_folder,
    project_of_metadata,
    project_of_wheel,
)
from sglang_platform.devtools.check.remark import Checked, Remark, worst_first
from sglang_platform.devtools.doctor.source_class import examine_classes
from sglang_platform.devtools.upgrade.coupling import KINDS
from sglang_platform.devtools.upgrade.plugin import PluginSource
from sglang_platform.devtools.upgrade.reader import read_couplings
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["checked", "print_checked"]

_log = logging.getLogger(__name__)

_STYLES = {"problem": "bold red", "warning": "yellow", "note": "dim"}
_TITLES = {
    "packaging": "Packaging",
    "installation": "As an installed plugin",
    "hooks": "Hooks and patches",
    "couplings": "Lines that depend on SGLang",
}
_MOST_UNREAD = 12


def checked(where: str, plugin: PluginSource, host: Release, *, ask: bool = True) -> Checked:
    """Run every check. `ask`: also run the plugin's `activate()` in a subprocess, as `doctor` does."""
    _log.info("reading %s and %s", plugin.label, host.label)
    path = Path(where)
    project = _project(path, plugin)
    version = re.search(r"\d+\.\d+[\w.]*", host.label)
    remarks: list[Remark] = list(
        examine_packaging(
            project, plugin.tree, version[0] if version else None, path if path.is_dir() else None
        )
    )
    couplings = read_couplings(plugin, Sides(host, host))
    remarks += examine_couplings(couplings, host)
    remarks += examine_hooks(couplings, plugin, host)
    unread = [*couplings.unread, *unclear_couplings(couplings, plugin, host)]
    for override in examine_classes(couplings, plugin, host):
        place = plugin.place_of(override.where or "")
        if override.id == "class-unread":
            unread.append((str(place), override.what))
            continue
        id_, level, what, _, why, fix, _ = override
        remarks.append(Remark("couplings", id_, level, what, place.file, place.line, why, fix))
    if ask and not project.problems:
        _log.info("asking the installed plugin")
        found = list(examine_installation(project, path if path.exists() else None))
        found += _asked_beside(version[0] if version else None, host)
        unread += [("the installed plugin", one.why or "") for one in found if one.id == "doctor-unasked"]
        remarks += [one for one in found if one.id != "doctor-unasked" and not one.id.startswith(_OF_LINES)]
    elif not ask:
        unread.append(("activate()", "it was not to be run"))
    counts = Counter(one.kind for one in couplings.found)
    looked: dict[str, int] = {kind: counts[kind] for kind in KINDS if counts[kind]}
    return Checked(plugin.label, host.label, worst_first(remarks), tuple(dict.fromkeys(unread)), looked, ask)


def _asked_beside(release: str | None, host: Release) -> list[Remark]:
    """A note if `doctor` ran against another release than the other checks."""
    installed = installed_version("sglang")
    if release in (None, installed):
        return []
    what = (
        f"the plugin was asked beside {f'SGLang {installed}' if installed else 'no SGLang'}, not {host.label}"
    )
    why = "what doctor says is of this environment; packaging, hooks and lines were compared with the release given"
    fix = "run the check in an environment that has that release"
    return [Remark("installation", "another-release-installed", "note", what, why=why, fix=fix)]


_OF_LINES = ("class-", "hook-", "host-", "override-")
"""What `doctor` says of the lines that depend on the SGLang that is installed."""


def _project(path: Path, plugin: PluginSource) -> Project:
    if path.is_dir():
        return project_of_folder(path)
    if path.is_file() and path.suffix == ".whl":
        return project_of_wheel(path)
    try:
        found = distribution(plugin.label.partition(" ")[0])
    except (PackageNotFoundError, ValueError):
        return project_of_metadata("METADATA", "", "")
    return project_of_metadata(
        "METADATA", metadata_text(found, "METADATA"), metadata_text(found, "entry_points.txt")
    )


def print_checked(out: Page, one: Checked, *, everything: bool = False) -> None:
    """Print the result as text; `everything`: with all unexamined places."""
    out.print(Text(visible(f"{one.plugin} against {one.host}"), style="bold"))  # Text strips bells
    for part, title in _TITLES.items():
        found = [remark for remark in one.remarks if remark.part == part]
        out.print(Text(f"\n{title}: {_counted(found)}", style="bold"))
        for remark in found:
            head = Text(f"{remark.level}: ", style=_STYLES[remark.level]) + Text(
                f"{remark.what} [{remark.id}]"
            )
            out.block(head, (("line", remark.where), ("why", remark.why), ("fix", remark.fix)), least=5)
    if one.unread:
        out.print(Text(f"\nNot looked at: {len(one.unread)}", style="bold"))
    unread = one.unread if everything else one.unread[:_MOST_UNREAD]
    for where, why in unread:
        out.print(Text(f"  {where}: {why}", style="yellow"))
    if len(unread) < len(one.unread):
        out.print(Text(f"  and {len(one.unread) - len(unread)} more; --json has them all", style="yellow"))
    if one.asked:
        out.print(Text("\nNot made here: the platform's object (`sglang-platform info` makes it)"))
    kinds = ", ".join(f"{count} {kind}" for kind, count in one.looked.items()) or "none"
    out.print(Text(f"\n{sum(one.looked.values())} lines that depend on SGLang: {kinds}"))
    out.print(Text(one.verdict, style="bold red" if one.count("problem") else "bold"))


def _counted(found: list[Remark]) -> str:
    counts = Counter(one.level for one in found)
    return (
        ", ".join(f"{count} {level}{'s' * (count > 1)}" for level, count in counts.items()) or "nothing wrong"
    )
