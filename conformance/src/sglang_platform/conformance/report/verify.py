"""Contradictions in a report: within it, with this suite, and with the plugin that is installed here.

Everything that follows from something else in the report is computed again. What a check answered does not follow from
anything: it is known only where the check is run again (`sglang-platform conformance verify --rerun`). Nothing here
tells who made a report, since nothing in it has a key.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Set
from math import ceil
from pathlib import Path
from typing import Any

from sglang_platform.conformance.case_ids import parted
from sglang_platform.conformance.check import Check, registered
from sglang_platform.conformance.expected import read_vendor_file
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.profiles import edition, profiles
from sglang_platform.conformance.report.digests import checksum, plugin_digest, suite_digest
from sglang_platform.conformance.report.document import counted, levels_of
from sglang_platform.conformance.report.environment import environment
from sglang_platform.conformance.report.runs import problems_of_run, words_of
from sglang_platform.conformance.runner import Runner, Selection
from sglang_platform.conformance.seeds import seed_of
from sglang_platform.conformance.verdict import judge

__all__ = ["problems_of", "reruns"]

Report = Mapping[str, Any]


def problems_of(report: Report, *, installed: bool = True) -> list[str]:
    """All that is wrong with a report, in words; empty where nothing is. Nothing of the plugin is imported.

    installed: whether the plugin is to be here, with the files that were checked.
    """
    return [problem for rule in _RULES if installed or rule is not _plugin for problem in rule(report)]


def reruns(
    report: Report,
    share: float,
    *,
    patience: float = 1.0,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> list[str]:
    """Run a random `share` of the checks that were run again, as they were; answers with what differs.

    The plugin must be installed here, and its device be at hand. Raises ConfigurationError where the vendor's file that
    the report names cannot be read.
    """
    known, run = registered(), report["run"]
    platform = report["platform"]
    name = platform["name"] + (f"={platform['location']}" if platform["location"] else "")
    file = run["vendor_file"]
    selection = Selection(
        name,
        host=report["host"],
        seed=run["seed"],
        vendor_file=read_vendor_file(Path(file) if file else None, list(known)),
        thorough=run["thorough"],
        models=tuple(one["path"] for one in run["models"]),
        patience=patience,
    )
    # With a part of its cases a check was not run as it is here.
    ran = [one for one in report["outcomes"] if one["host"] is not None and not _some_cases(report)]
    again = random.sample(ran, ceil(len(ran) * share))
    runner = Runner(selection, on_outcome=on_outcome)
    for one in report["outcomes"]:
        runner.learn(known[one["id"]], Outcome.of(one))
    try:
        runner.describe()
        return [
            problem
            for one in sorted(again, key=lambda one: list(known).index(one["id"]))
            if (problem := _differs(one, runner.run_one(known[one["id"]]))) is not None
        ]
    finally:
        runner.close()


def _differs(told: Report, found: Outcome) -> str | None:
    now = found.as_dict()
    for field, of in (("status", None), ("cases", None), ("failing", "id")):
        was, here = (each[field] if of is None else [one[of] for one in each[field]] for each in (told, now))
        if was != here:
            more = f" ({found.what})" if found.what else ""
            return f"{found.id} was run again: {field} is {here!r}, and the report says {was!r}{more}"
    return None


def _some_cases(report: Report) -> bool:
    return any("[" in word for word in words_of(report["run"]["command"]))


def _suite(report: Report) -> Iterator[str]:
    suite = report["suite"]
    if suite["edition"] != edition():
        yield f"it is of edition {suite['edition']} of the profiles, and this suite has edition {edition()}"
    if suite["digest"] != suite_digest():
        yield "it was made by a suite with other files than the one installed here"


def _checksum(report: Report) -> Iterator[str]:
    if report["checksum"] != checksum(report):
        yield "it was edited by hand: its checksum does not fit the rest of it"


def _plugin(report: Report) -> Iterator[str]:
    platform = report["platform"]
    if platform["digest"] is None:
        yield "it does not say which files of the plugin were checked"
        return
    here = plugin_digest(platform)
    if here is None:
        yield f"the plugin {platform['name']!r} is not installed here: which files were checked cannot be compared"
    elif here != platform["digest"]:
        yield "the plugin installed here has other files than the one that was checked"
    packages = report["environment"]["packages"]
    if platform["distribution"] is not None:
        if packages.get(platform["distribution"]) != platform["version"]:
            yield f"it names two versions of {platform['distribution']}"
        elif (
            environment(platform["distribution"])["packages"][platform["distribution"]] != platform["version"]
        ):
            yield f"{platform['distribution']} {platform['version']} is not the version installed here"


def _checks(report: Report) -> Iterator[str]:
    known = registered()
    ids = [one["id"] for one in report["outcomes"]]
    for name in sorted({one for one in ids if ids.count(one) > 1}):
        yield f"{name} is told twice"
    for name in dict.fromkeys(ids):
        if name not in known:
            yield f"there is no check {name}"
    if report["run"]["whole"]:
        wanted = Selection("", host=report["host"]).chosen(
            {name for one in report["verdict"]["profiles"] for name in _ids_of(one["name"])}
        )
        missing = [one.id for one in wanted if one.id not in ids]
        if missing:
            yield f"it says that the whole suite was run, and lacks {', '.join(missing)}"


def _outcomes(report: Report) -> Iterator[str]:
    known = registered()
    ran = [known[one["id"]] for one in report["outcomes"] if one["status"] in _RAN and one["id"] in known]
    parts_seen = {name for check in ran for name in _required(check)}
    for one in report["outcomes"]:
        if one["id"] in known:
            for problem in _outcome(report, one, known[one["id"]], parts_seen):
                yield f"{one['id']}: {problem}"


def _outcome(report: Report, one: Report, check: Check, parts_seen: Set[str]) -> Iterator[str]:
    status, host = one["status"], one["host"]
    if (one["level"], one["proves"]) != (check.level.label, check.proves):
        yield "its level or its text is not the check's"
    if one["seed"] != seed_of(report["run"]["seed"], check.id):
        yield "its seed does not come from the run's"
    where = Selection("", host=report["host"]).host_of(check)
    nowhere = status == "not_applicable" and check.hosts == ("none",)
    if host != where and not (host is None and (nowhere or one["cause"] == "interrupted")):
        yield f"it says that it ran in host {host!r}, and with --host {report['host']} it runs in {where!r}"
    if (one["cause"] is not None) != (status == "not_run"):
        yield f"a check that is {status} has the cause {one['cause']!r}"
    counts_devices = any(requirement.waits_for == "device" for requirement in check.requires)
    if one["cause"] == "device" and not (report["platform"]["device_absent"] or counts_devices):
        yield "it waits for the device, which was there"
    if status in _RAN:
        if check.needs == "device" and report["platform"]["device_absent"] is not None:
            yield "it needs the device, which was absent"
        if not _met(check, report):
            yield "it ran, and the platform does not declare what it is about"
    if status in ("passed", "unexpected_pass") and one["cases"] < 1:
        yield "it passed without a case"
    if status == "passed" and (one["failure"] or one["trace"]):
        yield "it passed, and tells a failure"
    yield from _failing(one, check)
    by_requirement = check.requires and not _found_while_running(one)
    if status == "not_applicable" and by_requirement and _met(check, report, parts_seen):
        yield "it does not apply, and by the declarations and the other checks it does"


def _failing(one: Report, check: Check) -> Iterator[str]:
    """What is told of its cases follows from them, and they are cases of this check."""
    failing, status = one["failing"], one["status"]
    left = [each for each in failing if each["waived"] is None]
    if (status == "failed") != bool(left) or (status == "expected_failure") != (bool(failing) and not left):
        if not (status == "unexpected_pass" and not left):
            yield f"a check that is {status} tells of {len(failing)} failing cases, {len(left)} of them not waived"
    elif failing and any(one[name] != (left or failing)[0][name] for name in _OF_THE_FIRST):
        yield "what it tells is not what its first failing case tells"
    ids = [each["id"] for each in failing]
    if len(set(ids)) < len(ids) or any(parted(each)[0] != check.id for each in ids):
        yield "its failing cases are not those of one check, each told once"
    if check.cases is not None and len(failing) > max(1, one["cases"]):
        yield f"{len(failing)} of {one['cases']} cases failed"


_OF_THE_FIRST = ("failure", "what", "case", "fix", "place", "trace")
_RAN = ("passed", "failed", "expected_failure", "unexpected_pass")
_WORDS = {
    "kv_kind": "kv_kinds",
    "kv_dtype": "kv_dtypes",
    "attention_feature": "attention_features",
    "capability": "capabilities",
}
"""Requirements that are met by a word in a list of the declarations."""


def _required(check: Check) -> Iterator[str]:
    """The names of the abilities that it requires, each by itself where `all_of` joins them."""
    for requirement in check.requires:
        yield from (one.name for one in requirement.parts or (requirement,))


def _met(check: Check, report: Report, parts_seen: Set[str] | None = None) -> bool:
    """Whether the declarations have every word that the check requires, and `parts_seen` every part, where it is given:
    what other checks that ran have required."""
    for name in _required(check):
        kind, _, word = name.partition("(")
        if kind in _WORDS:
            if word.rstrip(")") not in report["declares"][_WORDS[kind]]:
                return False
        elif parts_seen is not None and name not in parts_seen:
            return False
    return True


def _found_while_running(one: Report) -> bool:
    """The check itself, not its requirements, found nothing to judge."""
    return not any(
        words in (one["why"] or "") for words in ("not declared: ", " brings no ", "registers no fused")
    )


def _waivers(report: Report) -> Iterator[str]:
    outcomes = report["outcomes"]
    by_the_vendor = [
        one["id"]
        for one in outcomes
        if one["status"] in ("expected_failure", "unexpected_pass")
        or one["widened"]
        or any(each["waived"] is not None for each in one["failing"])
    ]
    if by_the_vendor and report["run"]["vendor_file"] is None:
        yield f"{', '.join(by_the_vendor)} was judged by a file of the vendor's, and the report names no file"
    for one in outcomes:
        reasons = [each["waived"] for each in one["failing"]]
        if one["status"] == "expected_failure":
            if not (one["why"] and one["what"] and all(reasons)):
                yield f"{one['id']} is waived without a reason, or without what was seen"
            elif one["why"] != "; ".join(dict.fromkeys(reasons)):
                yield f"{one['id']} is waived for another reason than its cases"
        for each in one["widened"]:
            if not (each["reason"] and 1 < each["needed"] <= each["factor"]):
                yield f"{one['id']} is judged by a tolerance without a reason, or beyond its factor"


def _sums(report: Report) -> Iterator[str]:
    outcomes = report["outcomes"]
    if report["summary"] != counted(outcomes):
        yield "its summary is not the count of its outcomes"
    if report["levels"] != levels_of(outcomes):
        yield "its table by level is not the count of its outcomes"


def _verdict(report: Report) -> Iterator[str]:
    asked = [one["name"] for one in report["verdict"]["profiles"]]
    unknown = [name for name in asked if name not in profiles()]
    if unknown or not asked:
        yield f"it is judged by {', '.join(unknown) or 'no profile'}, which this suite does not have"
        return
    absent = bool(report["platform"]["device_absent"])
    computed = judge(report["outcomes"], asked, device_absent=absent).as_dict()
    for name, value in computed.items():
        if report["verdict"][name] != value:
            instead = f": {value!r} does" if isinstance(value, str) else ""
            yield f"its verdict's {name} does not follow from its outcomes{instead}"


def _run(report: Report) -> Iterator[str]:
    yield from problems_of_run(report)


def _ids_of(name: str) -> tuple[str, ...]:
    known = profiles()
    return known[name].checks if name in known else ()


_RULES = (_checksum, _suite, _plugin, _checks, _outcomes, _waivers, _sums, _verdict, _run)
