"""All checks that need no running SGLang."""

from __future__ import annotations

from sglang_platform.core.inspect.doctor.discovery import examine
from sglang_platform.core.inspect.doctor.finding import Finding, worst_first
from sglang_platform.core.inspect.doctor.hook_targets import examine_hook_targets
from sglang_platform.core.inspect.doctor.isolation import examine_isolation
from sglang_platform.core.inspect.doctor.module_source import SourceReader
from sglang_platform.core.inspect.doctor.platform_classes import examine_platform_classes

__all__ = ["examine_everything"]


def examine_everything() -> list[Finding]:
    """Every finding, problems first, each told once. Imports neither torch nor sglang, nor any platform class."""
    reader = SourceReader()
    findings = examine()  # asks the plugins, so that where their classes are is known afterwards
    told = {(finding.id, finding.plugin) for finding in findings}
    findings += [finding for finding in examine_isolation() if (finding.id, finding.plugin) not in told]
    findings += examine_platform_classes(reader)
    findings += examine_hook_targets(reader)
    return worst_first(dict.fromkeys(findings))
