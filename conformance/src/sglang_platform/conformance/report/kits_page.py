"""The page of SGLang's own test kits: kit x test, on a platform and on SGLang's own CPU device, from one report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sglang_platform.conformance.level import Level

__all__ = ["kits_page"]

_HEAD = """# SGLang's test kits

Generated from a conformance report by `nox -s kits`; do not edit. SGLang {release} ships the test kits of its own
developers. They run here unmodified from the installed wheel, on the platform `{platform}` and on SGLang's own in-tree
CPU device in the same environment.

- passed: the test passes. What passes in-tree must pass on the platform.
- not applicable: the test ends in-tree as it ends here, or the platform refuses what SGLang's own device cannot either.
  The reason stands below, with what SGLang's own device says.
- **failed**: it passes in-tree and not here; or a wrong value where nobody has seen a right one.

"""


def kits_page(
    report: Mapping[str, Any],
    left_out: Mapping[str, str],
    recorded: Mapping[tuple[str, str], tuple[str, str]],
) -> str:
    """The page's text. `left_out` are kits that are not run, each with the reason; `recorded` is how a test of a kit
    ends on SGLang's own device, and in which words, by the record of the release."""
    outcomes = [one for one in report["outcomes"] if one["level"] == Level.KITS.label]
    tests = [part for outcome in outcomes for part in outcome.get("parts") or ()]
    tests = [_with_record(one, recorded) for one in tests]
    release = report["environment"]["packages"].get("sglang") or "?"
    lines = [_HEAD.format(release=release, platform=report["platform"]["name"])]
    lines += [_totals(tests), "", f"The level took {_seconds(report)} s.", ""]
    lines += ["| kit | tests | pass here | pass in-tree | not applicable | failed |", f"|{' --- |' * 6}"]
    for kit in dict.fromkeys(one["of"] for one in tests):
        mine = [one for one in tests if one["of"] == kit]
        counts = (
            len(mine),
            _passed(mine),
            _in_tree(mine),
            _ended(mine, "not applicable"),
            _ended(mine, "failed"),
        )
        lines.append(f"| {kit} | {' | '.join(map(str, counts))} |")
    lines += ["", "## Every difference", ""]
    lines += [_difference(one) for one in tests if one["status"] != "passed" or one["baseline"] != "passed"]
    not_run = [one for one in outcomes if one["status"] != "passed" and not one.get("parts")]
    lines += [f"- {one['id']}: {_line(one['why'] or one['what'] or '')}" for one in not_run]
    lines += ["", "## Kits that are not run", ""]
    lines += [f"- `{name}`: {why}" for name, why in left_out.items()]
    lines += ["", "## Every test", ""]
    for kit in dict.fromkeys(one["of"] for one in tests):
        named = ", ".join(_shown(one) for one in tests if one["of"] == kit)
        lines.append(f"- {kit}: {named}")
    return "\n".join(lines) + "\n"


def _totals(tests: list[dict[str, Any]]) -> str:
    return (
        f"**{_passed(tests)} of {len(tests)} tests pass here, {_in_tree(tests)} in-tree; "
        f"{_ended(tests, 'not applicable')} are not applicable, {_ended(tests, 'failed')} fail.**"
    )


def _passed(tests: Iterable[dict[str, Any]]) -> int:
    return _ended(tests, "passed")


def _ended(tests: Iterable[dict[str, Any]], status: str) -> int:
    return sum(one["status"] == status for one in tests)


def _in_tree(tests: Iterable[dict[str, Any]]) -> int:
    return sum(one["baseline"] == "passed" for one in tests)


def _with_record(test: dict[str, Any], recorded: Mapping[tuple[str, str], tuple[str, str]]) -> dict[str, Any]:
    outcome, words = recorded.get((test["of"], test["name"]), (test["baseline"], ""))
    return {**test, "baseline": outcome, "in_tree": words}


def _difference(test: dict[str, Any]) -> str:
    state = "**failed**" if test["status"] == "failed" else test["status"]
    words = _line(test["why"] or f"{test['baseline'] or 'not run'} in-tree: {test['in_tree']}")
    return f"- {test['of']}, `{test['name']}`: {state}: {words}"


def _shown(test: dict[str, Any]) -> str:
    return f"`{test['name']}`" if test["status"] == "passed" else f"`{test['name']}` ({test['status']})"


def _line(text: str) -> str:
    return " ".join(text.split())[:500].replace("<", "&lt;").replace("|", "&#124;")


def _seconds(report: Mapping[str, Any]) -> int:
    return round(report["levels"].get(Level.KITS.label, {}).get("seconds", 0))
