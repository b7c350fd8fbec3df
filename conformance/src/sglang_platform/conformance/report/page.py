"""One self-contained HTML page from a report: no script, no request to anywhere."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import case_text
from sglang_platform.conformance.report.causes import by_cause, without_cause
from sglang_platform.conformance.report.document import STATUSES, by_reason

__all__ = ["page"]


def page(document: dict[str, Any]) -> str:
    """The page's text."""
    from jinja2 import Environment, StrictUndefined

    template = files("sglang_platform.conformance.report").joinpath("page.html.jinja").read_text("utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["case_text"] = case_text
    outcomes = document["outcomes"]
    return environment.from_string(template).render(
        document=document,
        causes=by_cause(outcomes),
        suite_failed=[one for one in outcomes if one["status"] == "suite_failed"],
        blocked=without_cause(outcomes),
        expected=[one for one in outcomes if one["status"] == "expected_failure"],
        reasons=by_reason(outcomes),
        levels=[level for level in Level if level.label in document["levels"]],
        statuses=STATUSES,
        by_level={level.label: [one for one in outcomes if one["level"] == level.label] for level in Level},
    )
