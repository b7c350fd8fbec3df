"""A survey as text, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich.text import Text

from sglang_platform.core.cli.page import Page
from sglang_platform.devtools.assumptions.site import KINDS, STANDINGS, Assumption
from sglang_platform.devtools.assumptions.survey import Survey

__all__ = ["chosen", "describe_survey", "print_survey"]

_SHORT = {"torch.cuda": "cuda", "triton": "Triton", "gate": "gates", "import": "imports"}


def chosen(sites: Iterable[Assumption], feature: str | None) -> list[Assumption]:
    """The places of one feature, or all of them."""
    return [one for one in sites if feature is None or one.feature == feature]


def describe_survey(survey: Survey, sites: Sequence[Assumption]) -> dict[str, Any]:
    """The survey in plain JSON types."""
    return {
        "host": survey.label,
        "modules": survey.modules,
        "counts": {
            kind: {one: survey.number_of(kind=kind, standing=one) for one in STANDINGS} for kind in KINDS
        },
        "sites": [one._asdict() for one in sites],
        "unread": list(survey.unread),
    }


def print_survey(out: Page, survey: Survey, sites: Sequence[Assumption], *, every: bool) -> None:
    """Print the counts by feature; `every`: also list each place that is not gated."""
    out.print(Text(survey.label, style="bold"))
    by_feature = {name: [one for one in sites if one.feature == name] for name in survey.features}
    rows = [[feature, *_counts(own)] for feature, own in by_feature.items() if own]
    columns = ["feature", *(_SHORT[kind] for kind in KINDS), *STANDINGS]
    out.table(columns, [*rows, ["all", *_counts(sites)]], right=columns[1:])
    for kind, what in KINDS.items():
        out.print(Text(f"{_SHORT[kind]}: {what}".replace("`", "")))
    for standing, meaning in STANDINGS.items():
        out.print(Text(f"{standing}: {meaning}"))
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


def _print_site(out: Page, site: Assumption) -> None:
    out.print(Text(f"{site.place} ", style="bold") + Text(f"{site.kind}, {site.form}: {site.standing}"))
    out.print(Text(f"  {site.text}"))
    out.print(Text(f"  {site.function or 'at import'}"))
