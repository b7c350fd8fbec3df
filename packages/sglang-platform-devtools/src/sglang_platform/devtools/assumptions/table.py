"""A survey as text, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich.text import Text

from sglang_platform.core.cli.page import Page
from sglang_platform.devtools.assumptions.site import KINDS, STANDINGS, Assumption, describe
from sglang_platform.devtools.assumptions.survey import Survey

__all__ = ["chosen", "describe_survey", "print_survey"]

_SHORT = {"torch.cuda": "cuda", "triton": "Triton", "gate": "gates", "import": "imports"}
_MOST_ARGUMENTS = 4


def chosen(sites: Iterable[Assumption], feature: str | None, argument: str | None) -> list[Assumption]:
    """The places of one feature, or those reached by one server argument: ``lora_backend``, ``--lora-backend``."""
    wanted = argument.lstrip("-").replace("-", "_") if argument else None
    return [
        one
        for one in sites
        if (feature is None or one.feature == feature)
        and (wanted is None or any(each.partition("=")[0] == wanted for each in one.arguments))
    ]


def describe_survey(survey: Survey, sites: Sequence[Assumption]) -> dict[str, Any]:
    """The survey in plain JSON types."""
    return {
        "host": survey.label,
        "modules": survey.modules,
        "server_arguments": survey.arguments,
        "seams_of": survey.seams.release or None,
        "counts": {
            kind: {one: survey.number_of(kind=kind, standing=one) for one in STANDINGS} for kind in KINDS
        },
        "sites": [describe(one) for one in sites],
        "unread": list(survey.unread),
    }


def print_survey(out: Page, survey: Survey, sites: Sequence[Assumption], *, every: bool) -> None:
    """Print the counts by feature and by argument; `every`: also list each place that is not gated."""
    out.print(Text(survey.label, style="bold"))
    by_feature = {name: [one for one in sites if one.feature == name] for name in survey.features}
    rows = [[feature, *_counts(own)] for feature, own in by_feature.items() if own]
    columns = ["feature", *(_SHORT[kind] for kind in KINDS), *STANDINGS]
    out.table(columns, [*rows, ["all", *_counts(sites)]], right=columns[1:])
    for kind, what in KINDS.items():
        out.print(Text(f"{_SHORT[kind]}: {what}".replace("`", "")))
    for standing, meaning in STANDINGS.items():
        out.print(Text(f"{standing}: {meaning}"))
    _print_arguments(out, sites)
    if not survey.seams.release:
        out.print(Text("no seams were read: nothing is told as carried", style="yellow"))
    for why in survey.unread:
        out.print(Text(f"not looked at: {why}", style="yellow"))
    if every:
        for one in sites:
            if one.standing != "gated":
                _print_site(out, one)


def _counts(sites: Sequence[Assumption]) -> list[str]:
    kinds = Counter(one.kind for one in sites)
    standings = Counter(one.standing for one in sites)
    return [*(str(kinds[one]) for one in KINDS), *(str(standings[one]) for one in STANDINGS)]


def _print_arguments(out: Page, sites: Sequence[Assumption]) -> None:
    counts = Counter(
        argument
        for one in sites
        if one.standing == "open"
        for argument in {each.partition("=")[0] for each in one.arguments} or {"unknown"}
    )
    told = ", ".join(f"{name} {count}" for name, count in counts.most_common(16))
    out.print(Text(f"open places by the server argument that they are reached from: {told}"))


def _print_site(out: Page, site: Assumption) -> None:
    by = f" by {site.by}" if site.by else ""
    out.print(Text(f"{site.place} ", style="bold") + Text(f"{site.kind}, {site.form}: {site.standing}{by}"))
    out.print(Text(f"  {site.text}"))
    shown = ", ".join(site.arguments[:_MOST_ARGUMENTS]) or "unknown"
    more = len(site.arguments) - _MOST_ARGUMENTS
    out.print(
        Text(f"  {site.function or 'at import'}; from: {shown}" + (f" and {more} more" if more > 0 else ""))
    )
