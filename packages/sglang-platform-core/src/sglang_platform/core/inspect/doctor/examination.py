"""All checks that need no running SGLang."""

from __future__ import annotations

from sglang_platform.core.inspect.doctor.discovery import examine
from sglang_platform.core.inspect.doctor.entry_functions import examine_entry_functions
from sglang_platform.core.inspect.doctor.finding import Finding, worst_first
from sglang_platform.core.inspect.doctor.hook_targets import examine_hook_targets
from sglang_platform.core.inspect.doctor.host_answers import examined_live
from sglang_platform.core.inspect.doctor.isolation import examine_isolation
from sglang_platform.core.inspect.doctor.platform_classes import examine_platform_classes
from sglang_platform.core.inspect.doctor.plugin_sources import examine_plugin_sources
from sglang_platform.core.source.environment import Environment
from sglang_platform.core.source.lookup import Lookup

__all__ = ["examine_everything"]


def examine_everything(*, start_host: bool) -> list[Finding]:
    """Every finding, problems first, each told once. Imports neither torch nor sglang, nor any platform class.

    start_host: an active platform on SGLang's own classes is looked at in a running SGLang, in a process of its own.
    """
    lookup = Lookup(Environment())
    findings = examine()  # asks the plugins, so that where their classes are is known afterwards
    told = {(finding.id, finding.plugin) for finding in findings}
    findings += [finding for finding in examine_isolation() if (finding.id, finding.plugin) not in told]
    findings += examine_entry_functions(lookup)
    findings += examine_platform_classes(lookup, start_host=start_host)
    findings += examine_plugin_sources(lookup, examined=examined_live(start_host))
    findings += examine_hook_targets(lookup)
    return worst_first(dict.fromkeys(findings))
