"""All checks of `doctor`: those of core, then those of each distribution that extends it.

An extension is an entry point in the group `sglang_platform.doctor` under the name `sources`: a function
`(*, start_host: bool) -> Iterable[Finding]`. `sglang-platform-devtools` brings the one that reads sources.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.apart import Depth
from sglang_platform.core.discovery.asking import resolve_obj
from sglang_platform.core.discovery.groups import DOCTOR_GROUP
from sglang_platform.core.doctor.discovery import examine
from sglang_platform.core.doctor.finding import Finding, worst_first
from sglang_platform.core.doctor.together import examine_together
from sglang_platform.core.errors import explain

__all__ = ["examine_everything"]

_EXTENSION = "sources"

_log = logging.getLogger(__name__)


def examine_everything(*, start_host: bool, depth: Depth = "object") -> list[Finding]:
    """All findings, problems first, without duplicates. Imports neither torch nor sglang, nor any platform class: a
    process of its own does.

    start_host: load general plugins together, and examine an active platform derived from SGLang's classes in a running
        SGLang, each in a separate process.
    depth: how far the other process goes: to the choice of a plugin, the import of its class, or the platform object.
    """
    _log.info("asking the platform plugins")
    findings = examine(depth)  # which tells the locations of their classes
    ends = any(finding.id == "plugin-ended" for finding in findings)
    if start_host and not ends:
        _log.info("loading all plugins together, in a process of their own")
    known = {(finding.what, finding.plugin) for finding in findings}
    together = () if ends else examine_together(start=start_host)  # it would end that process too
    findings += [finding for finding in together if (finding.what, finding.plugin) not in known]
    read = list(_of_extensions(start_host=start_host))
    explained = {finding.plugin for finding in read if finding.id == "platform-class-nowhere"}
    findings = [one for one in findings if one.id != "platform-class-failed" or one.plugin not in explained]
    findings += read
    return worst_first(dict.fromkeys(findings))


def _of_extensions(*, start_host: bool) -> Iterator[Finding]:
    extensions = [record for record in scan.records(DOCTOR_GROUP) if record.name == _EXTENSION]
    if not extensions:
        yield Finding(
            "sources-unread",
            "note",
            "the sources of the plugins were not read: hook targets, overridden methods, imports and calls",
            None,
            "sglang-platform-devtools is not installed",
            "pip install sglang-platform-devtools",
        )
    for record in extensions:
        try:
            yield from resolve_obj(record.value)(start_host=start_host)
        except Exception as error:  # noqa: BLE001 - a broken extension must not take the other findings with it
            yield Finding(
                "sources-unread",
                "problem",
                "the sources of the plugins were not read: an extension of doctor failed",
                record.origin,
                explain(error),
                f"install {record.origin.distribution} again",
            )
