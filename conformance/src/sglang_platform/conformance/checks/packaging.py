"""Level 1: the plugin is found, asked and imported without side effects. Each check works on a fresh process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from sglang_platform.conformance.check import Blocked, CheckFailed, NotApplicable, NotRun, check, expect
from sglang_platform.conformance.checks.findings import problems
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.probes.fresh import probe_once
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.contract.version import CONTRACT_VERSION
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.contract_version import stated_versions
from sglang_platform.core.discovery.groups import PLATFORM_GROUP
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.discovery.settings import LOCATION
from sglang_platform.core.doctor.entry_points import reference, target_problem
from sglang_platform.core.spelling import nearest

__all__ = ["activation", "installed", "metadata_of", "place_of", "third_party", "tops"]


def installed(subject: Subject) -> EntryPointRecord:
    """Its entry point. Raises NotRun for a development platform, Blocked where it is not installed."""
    if subject.location is not None:
        raise NotRun("a development platform has no package", cause="package")
    if subject.record is None:
        raise Blocked("the plugin is not installed: see packaging.entry_point_resolves")
    return subject.record


def metadata_of(record: EntryPointRecord) -> metadata.Distribution:
    """Its distribution's. Raises NotRun where there is none."""
    try:
        return metadata.distribution(record.origin.distribution or "")
    except metadata.PackageNotFoundError:
        raise NotRun(
            f"the metadata of {record.origin.distribution} cannot be found", cause="package"
        ) from None


def place_of(subject: Subject) -> tuple[str, str]:
    """Module and function of its entry point."""
    return _place(installed(subject).value)


def _place(value: str) -> tuple[str, str]:
    module, attribute = reference(value)
    return module, attribute or "activate"


def _activation(
    place: tuple[str, str], name: str | None, blocked: Sequence[str] = (), provided: Sequence[str] = ()
) -> dict[str, Any]:
    module, attribute = place
    return probe_once(
        "activation",
        f"it imports {module} and calls {attribute}()",
        environment={"SGLANG_PLATFORM": name, "SGLANG_PLATFORM_PLUGIN": None},
        module=module,
        attribute=attribute,
        blocked=blocked,
        provided=provided,
        fork=not blocked and not provided,
    )


def activation(subject: Subject, *blocked: str, provided: tuple[str, ...] = ()) -> dict[str, Any]:
    """What importing the entry point's module and calling `activate()` did, in a fresh process: where the `blocked`
    modules cannot be imported, and the `provided` ones are there, empty."""
    told = _activation(place_of(subject), subject.name, blocked, provided)
    if "import_raised" in told and not blocked and not provided:
        raise Blocked("its entry point cannot be imported: see packaging.entry_point_resolves")
    return told


@check(
    level=Level.PACKAGING, fix="correct the entry point in pyproject.toml, and pip install the package again"
)
def entry_point_resolves(subject: Subject) -> None:
    """The entry point names a function that exists, and importing its module raises nothing."""
    if subject.location is None and subject.record is None:
        raise _not_installed(subject)
    record = installed(subject)
    problem = target_problem(record.value)
    expect(problem is None, f"the entry point {record.name} = {record.value} leads nowhere: {problem}")
    module, _ = place_of(subject)
    told = _activation(place_of(subject), subject.name)
    if "import_raised" in told:
        raise CheckFailed(
            f"importing {module} raises {told['import_raised']}\n{_last_place(told['trace'])}",
            fix=f"import what only the device needs inside the functions that use it, so that {module} itself can "
            "be imported on any machine",
        )


def _last_place(trace: str) -> str:
    """The innermost file and line of a traceback."""
    places = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    return places[-1] if places else ""


def _not_installed(subject: Subject) -> CheckFailed:
    names = sorted({record.name for record in scan.records(PLATFORM_GROUP)})
    meant = nearest(subject.name, names)
    return CheckFailed(
        f"no installed distribution has the entry point {subject.name!r} in {PLATFORM_GROUP}"
        + (f"; did you mean {meant!r}?" if meant else ""),
        fix=f'write [project.entry-points."{PLATFORM_GROUP}"] with {subject.name} = "package:activate" into '
        f"pyproject.toml, and pip install the package; installed are: {', '.join(names) or 'none'}",
    )


@check(
    level=Level.PACKAGING,
    fix="register one name, and choose the class in its function; or let each function decline where the machine has"
    " another device than its own",
)
def one_platform_is_active(subject: Subject) -> None:
    """One distribution registers the name, once: with two, the host takes one of them without a word. No other name of
    the distribution leads to the same function, nor, where no platform is named, to one that is active together with
    this one: the host refuses to choose."""
    record = installed(subject)
    carriers = [f"{record.origin} = {record.value}" for record in subject.records]
    expect(
        len({(record.origin, record.value) for record in subject.records}) == 1,
        f"{len(carriers)} entry points are named {subject.name!r}: {'; '.join(carriers)}",
        fix="uninstall all but one: pip uninstall "
        + " or ".join(sorted({one.origin.distribution or "?" for one in subject.records})),
    )
    alike = sorted(
        other.name
        for other in scan.records(PLATFORM_GROUP)
        if other.value == record.value and other.name != subject.name
    )
    expect(
        not alike,
        f"{', '.join(map(repr, alike))} and {subject.name!r} are both {record.value}: where the operator names none,"
        " two platforms are active",
        fix=f'keep one name in [project.entry-points."{PLATFORM_GROUP}"]',
    )
    own = [
        one for one in scan.records(PLATFORM_GROUP) if one.origin.distribution == record.origin.distribution
    ]
    beside = [one for one in own if one.name != subject.name]
    named = [one for one in (record, *beside) if beside]
    active = [
        one.name for one in named if _activation(_place(one.value), None).get("asked", {}).get("answer")
    ]
    expect(
        subject.name not in active or len(active) < 2,
        f"where no platform is named, {' and '.join(map(repr, active))} of {record.origin} are active",
    )


@check(
    level=Level.PACKAGING, fix="correct the entry points in pyproject.toml, and pip install the package again"
)
def metadata_is_sound(subject: Subject) -> None:
    """Its metadata can be read, its entry points stand in groups that are read, its requirements are met, and a process
    without the working folder on its path finds its module."""
    installed(subject)
    read = ("metadata-unreadable", "distribution-hidden", "entry-point-nowhere")
    problems(subject, (*read, "group-unread", "version-conflict", "contract-without-plugin"))


@check(
    level=Level.PACKAGING,
    fix='state it in pyproject.toml: [project.entry-points."sglang_platform.contract"] with the plugin\'s name = "v1"',
)
def contract_version_is_stated(subject: Subject) -> None:
    """A plugin on core's contract states which version of it, where it can be read before anything is imported."""
    record = installed(subject)
    stated = stated_versions(record)
    if not stated and not _uses_core(subject):
        raise NotApplicable("the plugin is not built on sglang-platform-core")
    expect(stated, f"{record.origin} is built on core's contract and does not state its version")
    wrong = [version for version in stated if version != f"v{CONTRACT_VERSION}"]
    expect(
        not wrong,
        f"{record.origin} is built for contract {', '.join(wrong)}, and this core speaks v{CONTRACT_VERSION}",
        fix="port the plugin to this version of the contract, or install the sglang-platform-core it was built for",
    )


def _uses_core(subject: Subject) -> bool:
    return any(b"sglang_platform.core" in path.read_bytes() for _, path in subject.sources)


_AGAIN = {"asked again": "again", "asked in a forked child": "forked", "asked in a thread": "in_thread"}


@check(
    level=Level.PACKAGING,
    fix='return "pkg.mod:Class", or None; or raise sglang_platform.core.PlatformUnavailable with the reason',
)
def activate_answers_in_form(subject: Subject) -> None:
    """`activate()` answers with the place of a class, or declines; it raises nothing else. So it does when it is asked
    again, in a forked child, and in a thread that is not the process's first: a program may make its engine there."""
    told = activation(subject)
    asked = told["asked"]
    if "raised" in asked:
        raise CheckFailed(
            f"activate() raises {asked['raised']}\n{_last_place(asked['trace'])}",
            fix="find out what is missing, and decline with that as the reason: "
            'raise sglang_platform.core.PlatformUnavailable("...")',
        )
    answer = asked.get("answer")
    good = answer is None or (
        isinstance(answer, str) and LOCATION.fullmatch(answer) and {".", ":"} & set(answer)
    )
    expect(good, f"activate() answered {answer!r}, which names no class")
    first = _answer(asked)
    for when, which in _AGAIN.items():
        again = _answer(told[which])
        expect(
            again == first,
            f"activate() answered {first}; {when}, {again}",
            fix="let activate() depend on the machine alone, and keep no state between calls",
        )


@check(
    level=Level.PACKAGING,
    fix="do not catch ImportError around the probe; or decline with a reason that names the module: "
    'raise sglang_platform.core.PlatformUnavailable("... is not installed")',
)
def missing_module_is_told(subject: Subject) -> None:
    """A module that cannot be imported is told from a device that is not here: it raises, or its name is the reason.
    So is one that is not installed on this machine."""
    baseline = activation(subject)
    _not_installed_is_told(subject, baseline)
    own = subject.module.partition(".")[0] if subject.module else ""
    for name in sorted(third_party(baseline["imported"], own)):
        told = activation(subject, name)
        asked = told.get("asked", {})
        quiet = "answer" in asked and asked["answer"] is None and baseline["asked"].get("answer") is not None
        vague = "declined" in asked and "declined" not in baseline["asked"] and name not in asked["declined"]
        if quiet or vague:
            said = "None" if quiet else f"with the reason {asked['declined']!r}"
            raise CheckFailed(
                f"where {name} cannot be imported, activate() declines ({said}), as if the device were not here: an "
                "operator who forgot to install it would be served without the device",
                case={"missing": name},
            )


def _not_installed_is_told(subject: Subject, baseline: dict[str, Any]) -> None:
    """Raises CheckFailed where `activate()` declines since a module is not installed, and does not say so: with an
    empty module of that name it no longer does."""
    asked = baseline["asked"]
    declined = "declined" in asked or asked.get("answer", "") is None
    for name in baseline["missing"] if declined else ():
        if name in sys.stdlib_module_names or name in asked.get("declined", ""):
            continue
        there = activation(subject, provided=(name,)).get("asked", {"raised": "its import fails"})
        if "raised" in there or there.get("answer") is not None:
            said = f"with the reason {asked['declined']!r}" if "declined" in asked else "with None"
            raise CheckFailed(
                f"{name} is not installed, and activate() declines ({said}), as if the device were not here: an"
                " operator who forgot to install it would be served without the device",
                case={"missing": name},
            )


def third_party(modules: list[str], own: str) -> set[str]:
    """The packages among these modules that are neither the standard library's, nor core's, nor `own`."""
    skipped = {*sys.stdlib_module_names, own, "sglang_platform"}
    return {top for top in tops(modules) if top not in skipped and not top.startswith("_")}


def tops(modules: list[str]) -> set[str]:
    """The packages of these modules."""
    return {name.partition(".")[0] for name in modules}


def _answer(asked: dict[str, Any]) -> str:
    if "raised" in asked:
        return f"by raising {asked['raised']}"
    if "declined" in asked:
        return f"by declining ({asked['declined']})"
    return repr(asked["answer"])
