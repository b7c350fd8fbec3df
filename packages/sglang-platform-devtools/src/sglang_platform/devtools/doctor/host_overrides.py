"""Checks of platform classes built directly on SGLang's own base class, which checks nothing: names that nobody calls,
signatures that reject the host's calls, overrides hidden by the method resolution order.
"""

from __future__ import annotations

from collections.abc import Iterator

from sglang_platform.core.contract.drift import DriftRow, older_name, older_names
from sglang_platform.core.contract.drift_rows import BecameField
from sglang_platform.core.contract.members import public_names as contract_names
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.spelling import nearest
from sglang_platform.devtools.doctor.host_source import HostSource
from sglang_platform.devtools.doctor.override import Override
from sglang_platform.devtools.doctor.read_class import ReadClass, ReadPart

__all__ = ["examine_host_class"]


def examine_host_class(cls: ReadClass, host: HostSource) -> Iterator[Finding]:
    """The findings on one class, its vendor's base classes included."""
    known = frozenset(
        name
        for part in cls.mro
        if part.wrote == "host"
        for name, member in part.members.items()
        if not name.startswith("_") and member.kind != "class"
    )
    defined = {name for part in cls.vendors for name in part.members}
    for klass in cls.vendors:
        for name, member in klass.members.items():
            if name.startswith("_"):
                continue
            if name not in known:
                yield from _unknown(cls, klass, name, defined, known, host)
                continue
            first, theirs = cls.first(name), cls.of_host(name)
            if first.wrote == "host":
                yield Finding(
                    "override-unreached",
                    "problem",
                    f"{klass.name}.{name} is never reached",
                    None,
                    f"SGLang's {first.name} defines it too, and stands before {klass.name} in the bases of {cls.name}",
                    f"put {klass.name} first in the bases of {cls.name}",
                    member.place,
                )
            elif first is klass and theirs is not None:  # another vendor class may shadow it
                yield from Override(cls, klass, name, theirs, host, of_platform=True).examined()


def _unknown(
    cls: ReadClass, klass: ReadPart, name: str, defined: set[str], known: frozenset[str], host: HostSource
) -> Iterator[Finding]:
    """The findings on a public name that SGLang's classes lack: an older or later name, the vendor's own, or a typo."""
    row, where = older_name(name), klass.members[name].place
    what = f"{host} does not call {klass.name}.{name}"
    answers_today = row is not None and row.member in defined and row.member in known
    if host.asks_for(name):
        if row is not None and row.member in known and not answers_today:
            yield Finding(
                "override-older-name",
                "warning",
                f"{klass.name}.{name}() is an older name, which {host} still serves",
                None,
                "it logs a deprecation warning, and a later release will not ask for it",
                f"write {row.new}",
                where,
            )
        return
    if row is not None:
        yield _older(what, row, answers_today, host)._replace(where=where)
    elif name in contract_names(SRTPlatform):
        for finding in _later(what, name, defined, known):
            yield finding._replace(where=where)
    elif klass.members[name].kind not in ("value", "unknown") and not cls.is_used(klass, name):
        meant = nearest(name, known)
        yield Finding(
            "override-dead",
            "warning",
            f"{what}, and nothing in its own package does",
            None,
            "the name is not in the host's interface",
            f"rename it to {meant}" if meant else "remove it, or start its name with an underscore",
            where,
        )


def _older(what: str, row: DriftRow, answers_today: bool, host: HostSource) -> Finding:
    why = f"{row.old}() was {row.when}; nothing says so when the class is made"
    if answers_today:
        fix = "nothing to do, as long as the plugin serves those releases too"
        return Finding("override-not-called", "note", what, None, f"{why}. {row.new} answers here", fix)
    return Finding("override-dead", "problem", what, None, why, _write_today(row, host))


def _write_today(row: DriftRow, host: HostSource) -> str:
    """The fix on SGLang's own class, whose `PlatformCapabilities` lacks some fields of this project's contract."""
    fields = host.fields_of("sglang.srt.platforms.interface", "PlatformCapabilities")
    if not isinstance(row, BecameField) or fields is None:
        return f"write {row.new}"
    if row.field in fields:
        return f"write {row.new}, as in `capabilities = PlatformCapabilities({row.field}=True)`"
    known = ", ".join(sorted(fields))
    return f"remove it: {host} asks no platform for it, and its PlatformCapabilities has {known} only"


def _later(what: str, name: str, defined: set[str], known: frozenset[str]) -> Iterator[Finding]:
    """The finding on a name of a later SGLang or of this project's contract, on a class without the adapter."""
    here = [row.old for row in older_names() if row.member == name and row.old in known]
    if here and set(here) & defined:
        fix = "nothing to do: the older names answer here"
        yield Finding("override-not-called", "note", what, None, f"this release asks {', '.join(here)}", fix)
        return
    adapter = "derive the class from sglang_platform.core's SRTPlatform, whose adapter serves every release"
    yield Finding(
        "override-dead",
        "problem" if here else "warning",
        what,
        None,
        f"this release asks {', '.join(here)}"
        if here
        else "the name is of a later release, or of core's contract",
        f"write {', '.join(here)} as well, or {adapter}" if here else adapter,
    )
