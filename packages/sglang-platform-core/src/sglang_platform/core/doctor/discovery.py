"""The discovery checks of `sglang-platform doctor`; each finding says what, which plugin, why, what to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import PurePath

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.apart import DecisionApart, Depth, ask_apart
from sglang_platform.core.discovery.contract_version import check_contract_version
from sglang_platform.core.discovery.groups import (
    CONTRACT_GROUP,
    GENERAL_GROUP,
    KNOWN_GROUPS,
    OWN_PLUGIN,
    PLATFORM_GROUP,
    RETIRED_GROUPS,
    meant_group,
)
from sglang_platform.core.discovery.kind import (
    KINDS,
    PLUGIN_GROUPS,
    SRT,
    PlatformKind,
    installed_plugins,
    is_used,
)
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.discovery.refusals import refuse_duplicates
from sglang_platform.core.discovery.settings import PLUGINS_VARIABLE, plugin_filter, stop_on_error
from sglang_platform.core.doctor.entry_points import target_problem
from sglang_platform.core.doctor.finding import Finding, as_finding, worst_first
from sglang_platform.core.errors import PlatformError, PluginOrigin
from sglang_platform.core.installed.distributions import conflicts, installed_version
from sglang_platform.core.installed.files import Unread
from sglang_platform.core.spelling import nearest

__all__ = ["Finding", "examine"]


def examine(depth: Depth = "class") -> list[Finding]:
    """All findings of discovery, problems first.

    The platform plugins are asked in a process of their own, which imports the chosen class, and makes its object where
    depth is "object".
    """
    # Skip the diffusion runtime on machines that have no plugin for it.
    kinds = [kind for kind in KINDS if is_used(kind) or scan.records(kind.group)]
    asked = {kind: ask_apart(kind, depth) for kind in kinds}
    findings: dict[tuple[str, PluginOrigin | None], Finding] = {}
    decisions = (
        finding
        for kind, decision in asked.items()
        for finding in _decision(kind, decision)
        if is_used(kind) or finding.severity != "note"
    )
    for found in (*(check() for check in _CHECKS), decisions):
        for finding in found:
            findings.setdefault((finding.what, finding.plugin), finding)
    return worst_first(findings.values())


def _metadata() -> Iterator[Finding]:
    found = scan.scan()
    for path, reason in found.unreadable:
        yield Finding(
            "metadata-unreadable",
            "problem",
            f"{path} cannot be read",
            None,
            reason,
            f"pip install --force-reinstall {_distribution_of(path)}, or remove the folder",
        )
    for path, by in found.hidden:
        beside = PurePath(path).parent == PurePath(by).parent
        yield Finding(
            "distribution-hidden",
            "warning",
            f"{path} is hidden",
            None,
            f"{by} lies beside it and has the same name: an installation broke off, or was copied over another"
            if beside
            else f"{by} has the same name and comes first on sys.path",
            "remove the folder whose version is not the installed code's"
            if beside
            else f"uninstall one of the two: pip uninstall {_distribution_of(path)} removes {by}",
        )


def _distribution_of(path: str) -> str:
    """The name in the path of its metadata: `.../acme_npu-1.0.dist-info/entry_points.txt`."""
    folder = next((part for part in PurePath(path).parts if part.endswith("-info")), PurePath(path).name)
    return folder.partition("-")[0].replace("_", "-")


def _groups() -> Iterator[Finding]:
    for record in scan.scan().records:
        if record.group in KNOWN_GROUPS:
            continue
        meant = meant_group(record.group)
        if meant is None and not record.group.startswith(("sglang.", "sglang_platform.")):
            continue
        yield Finding(
            "group-unread",
            "problem" if meant else "warning",
            f"the entry-point group {record.group!r} is read by nobody",
            record.origin,
            f"{record.name} = {record.value} is never found"
            + (", the group has another name since SGLang 0.5.11" if record.group in RETIRED_GROUPS else ""),
            f"move it to {meant!r} and install the distribution again" if meant else "remove the entry point",
        )


def _targets() -> Iterator[Finding]:
    for record in installed_plugins():
        problem = target_problem(record.value)
        if problem is not None:
            yield Finding(
                "entry-point-nowhere",
                "problem",
                f"the entry point {record.name!r} leads nowhere",
                record.origin,
                f"{record.name} = {record.value}: {problem}",
                f"correct it in {record.origin.distribution} and install that again",
            )


def _duplicates() -> Iterator[Finding]:
    for found in map(scan.records, PLUGIN_GROUPS):
        try:
            refuse_duplicates(found)
        except PlatformError as error:
            yield as_finding(error)


def _contracts() -> Iterator[Finding]:
    plugins = list(installed_plugins())
    for record in plugins:
        try:
            check_contract_version(record)
        except PlatformError as error:
            yield as_finding(error)
    for contract in scan.records(CONTRACT_GROUP):
        if not any(record.origin == contract.origin for record in plugins):
            yield Finding(
                "contract-without-plugin",
                "warning",
                f"a contract version is stated for {contract.name!r}, but there is no such plugin",
                contract.origin,
                f"{contract.origin.distribution} has no plugin of that name, so the version is not checked",
                f"in {CONTRACT_GROUP} use the plugin's own entry-point name",
            )


def _decision(kind: PlatformKind, asked: DecisionApart) -> Iterator[Finding]:
    where = "" if kind is SRT else f", for the {kind.runtime} runtime"
    trace = asked.trace
    if asked.error is not None:
        finding = as_finding(asked.error)
        yield finding._replace(id="platform-class-failed") if _is_of_the_class(asked) else finding
    else:
        outcome = trace.outcome or "no platform plugin is active"
        yield Finding("platform-decided", "note", f"{outcome}{where}", asked.origin)
    for candidate in trace.candidates:
        if candidate.is_slow:
            yield Finding(
                "plugin-slow",
                "warning",
                f"activate() of {candidate.origin.name} took {candidate.seconds:.1f} s, its module's import included",
                candidate.origin,
                "every process of a launch calls it",
                "look for the driver's files there, and leave what takes time to init_backend()",
            )
        if candidate.outcome == "declined":
            what = f"{candidate.origin.name} declined{where}"
            if candidate.fix is not None:
                what += ", and its device is here"
                yield Finding(
                    "platform-unfit", "problem", what, candidate.origin, candidate.reason, candidate.fix
                )
                continue
            yield Finding("platform-declined", "note", what, candidate.origin, candidate.reason)
        elif candidate.outcome == "failed":
            fix = "see the reason; to go on without it: SGLANG_PLATFORM_ON_ERROR=warn"
            if trace.error is None:
                what = f"{candidate.origin.name} failed{where}"
                yield Finding("plugin-failed", "problem", what, candidate.origin, candidate.reason, fix)


def _is_of_the_class(asked: DecisionApart) -> bool:
    """Whether the plugin was chosen, and its class or object failed."""
    return any(one.answer and one.outcome == "failed" for one in asked.trace.candidates)


def _policy() -> Iterator[Finding]:
    try:
        stop_on_error()
    except PlatformError as error:
        yield as_finding(error)


def _filters() -> Iterator[Finding]:
    try:
        names = plugin_filter()
    except PlatformError as error:
        yield as_finding(error)
        return
    if names is None:
        return
    general = [record for record in scan.records(GENERAL_GROUP) if record.name != OWN_PLUGIN]
    platforms = scan.records(PLATFORM_GROUP)
    known = {OWN_PLUGIN, *(record.name for record in installed_plugins())}
    variable = f"{PLUGINS_VARIABLE}={','.join(names)}"
    for name in names:
        if name not in known:
            meant = nearest(name, known)
            yield Finding(
                "filter-unknown-name",
                "problem",
                f"{PLUGINS_VARIABLE} names {name!r}, which is no installed plugin",
                None,
                f"installed: {', '.join(sorted(known))}",
                f"write {meant!r}" if meant else f"remove it from {PLUGINS_VARIABLE}",
            )
    if OWN_PLUGIN not in names:
        yield Finding(
            "filter-hides-core",
            "problem",
            f"{variable} keeps {OWN_PLUGIN!r} out of SGLang",
            None,
            "SGLang then runs no code of this project: nothing checks the platform, and no hook of it is applied",
            f"add {OWN_PLUGIN} to {PLUGINS_VARIABLE}",
        )
    if not os.environ.get("SGLANG_PLATFORM"):
        for record in platforms:
            if record.name not in names:
                yield Finding(
                    "filter-hides-platform",
                    "problem",
                    f"{variable} hides the platform {record.name!r} from SGLang",
                    record.origin,
                    "SGLang filters platforms by it too, as long as SGLANG_PLATFORM is not set",
                    f"set SGLANG_PLATFORM={record.name}, or add {record.name} to {PLUGINS_VARIABLE}",
                )
    origin = _active()
    for record in general:
        if record.name not in names and origin and origin.distribution == record.origin.distribution:
            yield Finding(
                "filter-hides-own-hooks",
                "warning",
                f"{variable} leaves out {record.name!r}, which belongs to the active platform",
                record.origin,
                "the platform's own hooks are not registered",
                f"add {record.name} to {PLUGINS_VARIABLE}",
            )


def _active() -> PluginOrigin | None:
    try:
        return lazy_platform(SRT)[1].choose().origin
    except PlatformError:
        return None  # reported by _decision


def _versions() -> Iterator[Finding]:
    core = installed_version("sglang-platform-core")
    if core is None:
        yield Finding(
            "core-not-installed",
            "problem",
            "sglang-platform-core is not installed as a distribution",
            None,
            "it is importable, but has no metadata: SGLang cannot find it, and runs no code of this project",
            "pip install the folder of sglang-platform-core (-e for development)",
        )
    distributions = {record.origin.distribution for record in scan.scan().records}
    for name in sorted({"sglang-platform-core", *filter(None, distributions)}):
        try:
            for wanted, found in conflicts(name, ("sglang", "sglang-platform-core")):
                yield Finding(
                    "version-conflict",
                    "problem",
                    f"{name} {installed_version(name)} needs {wanted}, and {found} is installed",
                    None,
                    "the two are not made for each other",
                    f"install a matching version of {name}, or pip install '{wanted}'",
                )
        except Unread as error:
            yield Finding(
                "metadata-unreadable",
                "problem",
                f"what {name} needs was not looked at: its METADATA cannot be read",
                None,
                str(error),
                f"install {name} again",
            )


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _metadata,
    _groups,
    _targets,
    _duplicates,
    _contracts,
    _policy,
    _filters,
    _versions,
)
