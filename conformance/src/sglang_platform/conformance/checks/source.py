"""Level 2: the plugin's source against the host's, read without importing either.

So a vendor learns without its device, and on any machine, what another release of SGLang means for the plugin.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from sglang_platform.conformance.check import CheckFailed, NotRun, check
from sglang_platform.conformance.checks.findings import problems
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.changes import read_hooks
from sglang_platform.devtools.hook_check.check import check as check_hooks
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.imports import Imported, imports_of
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.opening import open_host, open_module, package_of

__all__ = ["HostNames"]


@check(
    level=Level.CONTRACT,
    needs="source",
    fix="use today's name and signature; a name of your own starts with an underscore",
)
def overrides_are_called(subject: Subject) -> None:
    """No method of the platform class is dead: each has a name that the host calls, and is reached by it."""
    problems(subject, ("platform-class-nowhere", "override-dead", "override-unreached", "contract-broken"))


@check(level=Level.CONTRACT, needs="source", fix="take the parameters that the host passes")
def overrides_take_the_hosts_calls(subject: Subject) -> None:
    """Each override takes the calls of the installed SGLang, and is a method where it wants a method."""
    problems(subject, ("override-signature", "override-kind"))


@check(
    level=Level.CONTRACT,
    needs="source",
    fix="correct the target for the installed SGLang; `sglang-platform hooks check --host VERSION` reads any release",
)
def hook_targets_exist(subject: Subject) -> None:
    """What the plugin hooks exists in the installed SGLang, where it was, and takes the hook's signature; the target of
    an optional hook may be missing, if it is not a name nearly spelt as one that the plugin does not hook."""
    _host()
    all_rows = _hook_rows(subject)
    hooked = {row.wanted.target.replace(":", ".") for row in all_rows}
    rows = [
        row for row in all_rows if row.is_problem or (row.meant and row.meant.replace(":", ".") not in hooked)
    ]
    if not rows:
        return
    lines = []
    for row in rows:
        moved = f"; it is at {', '.join(row.moved_to)} now" if row.moved_to else ""
        near = f"; did you mean {row.nearest[0]}?" if row.nearest and not row.moved_to else ""
        why = f" ({row.why})" if row.why else ""
        lines.append(f"{row.wanted.target} is {row.verdict}{moved}{near}{why}, hooked at {row.wanted.where}")
    fixes = [f"hook {row.moved_to[0]}" for row in rows if row.moved_to]
    fixes += [f"hook {row.nearest[0]}" for row in rows if row.nearest and not row.moved_to]
    if any(row.why for row in rows):
        fixes.append("take the arguments that the target takes, and give what it gives, on every path")
    raise CheckFailed("\n".join(lines), fix="; ".join(fixes) or None)


def _hook_rows(subject: Subject) -> list[Any]:
    if subject.module is None:
        return []
    try:
        found = read_hooks(open_module(package_of(subject.module)), subject.name)
        wanted = [hook for hook in found.hooks if hook.target.startswith("sglang.")]
        return list(check_hooks(wanted, open_host("installed", {"sglang"}))) if wanted else []
    except PlatformError as error:
        raise NotRun(f"the hooks cannot be read: {error}") from None


@check(
    level=Level.CONTRACT,
    needs="source",
    fix="import it from where it is now, or guard the import with `except ImportError` and do without",
)
def host_imports_exist(subject: Subject) -> None:
    """Every module and name of SGLang that the plugin imports, in its factories too, exists in the installed one."""
    version = _host()
    reader = HostNames()
    lost: dict[str, str | None] = {}
    for _, path in subject.sources:
        for one in imports_of(path):
            if one.module.partition(".")[0] != "sglang" or not reader.fails(one):
                continue
            why, near = reader.missing(one) or ("", None)
            lost.setdefault(f"{why} (imported at {path}:{one.line})", near)
    if lost:
        near = ", ".join(one for one in lost.values() if one)
        raise CheckFailed(
            f"in SGLang {version}: " + "; ".join(lost), fix=f"did you mean {near}?" if near else None
        )


class HostNames:
    """What an import of the plugin finds in this environment, told by the reader that `doctor` uses."""

    def __init__(self) -> None:
        self._lookup = Lookup(Environment())

    def fails(self, one: Imported) -> bool:
        """Would the import raise, with nobody to catch it? One that stands in for others runs where those fail."""
        runs = not one.instead_of or any(self.missing(first) for first in one.instead_of)
        return runs and not one.guarded and self.missing(one) is not None

    def missing(self, one: Imported) -> tuple[str, str | None] | None:
        """Why the import finds nothing, and the nearest name; None where it does, or where the source cannot tell."""
        has = self._lookup.modules.has
        if not has(one.module):
            return f"the module {one.module} does not exist", None
        if one.name in (None, "*") or has(f"{one.module}.{one.name}"):
            return None
        answer = self._lookup.find(Address(one.module, (str(one.name),)))
        if not isinstance(answer, Absent):
            return None
        return f"{one.module} has no {one.name}", next(iter(answer.nearest), None)


@cache
def _host() -> str:
    """The installed SGLang's version. Raises NotRun where there is none; it is not imported."""
    if find_spec("sglang") is None:
        raise NotRun(
            "SGLang is not installed: its source is what the plugin's is compared with", cause="host"
        )
    try:
        return metadata.version("sglang")
    except metadata.PackageNotFoundError:
        return "of unknown version"
