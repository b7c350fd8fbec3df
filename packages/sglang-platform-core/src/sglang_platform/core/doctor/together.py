"""Loads in a process of its own all that a launch would load together: the platform's class and the general plugins.

A process in which one plugin after the other is asked cannot tell that two of them register the same thing.
"""

from __future__ import annotations

from collections.abc import Iterator

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.kind import KINDS
from sglang_platform.core.doctor.finding import Finding, as_finding
from sglang_platform.core.plugins.together import load_launch

__all__ = ["examine_together"]


def examine_together(*, start: bool) -> Iterator[Finding]:
    """What a launch would refuse once all plugins are loaded; nothing where no general plugin is installed.

    start: start the process. Otherwise a note says what was not looked at.
    """
    for kind in KINDS:
        if not start and any(record.name != OWN_PLUGIN for record in scan.records(kind.general_group)):
            what = "whether the plugins can be loaded together was not looked at: that runs them"
            yield Finding("plugins-untried", "note", what)
        outcome = load_launch(kind) if start else None
        if outcome is None:
            continue
        if outcome.error is not None:
            yield as_finding(outcome.error)
        if outcome.untried is not None:
            what = f"the start of the {kind.runtime} platform could not be tried beside the general plugins"
            yield Finding("plugins-untried", "note", what, None, outcome.untried)
