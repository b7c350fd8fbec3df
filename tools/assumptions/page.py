"""Surveys of several releases as one page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sglang_platform.devtools.assumptions.site import KINDS, STANDINGS
from sglang_platform.devtools.assumptions.survey import Survey, version_of

__all__ = ["assumptions_page"]

_HEAD = """# What SGLang still assumes of CUDA

The residual risk of a device that SGLang does not know: each place in SGLang's source that takes CUDA for granted or
asks for it, told from the sources by `sglang-platform host assumptions`, without importing SGLang. This page is
generated: `nox -s assumptions`, with the wheels of the releases in the folder that `SGLANG_WHEELS` names.

| kind | what is counted |
|---|---|
{kinds}

| standing | of a device that SGLang does not know by name, and that launches no Triton kernel |
|---|---|
{standings}

What is told is the place in the source, not what happens there: most open places are in parts that a platform replaces
with its own (pools, attention, graph runners), in kernels of features that it does not declare, and in models that it
does not serve. Callers are not followed: a function that only CUDA's code calls is open where it does not ask itself.

The list itself: `sglang-platform host assumptions --host 0.5.23 --all`, or `--json`; `--feature lora` for a part.
"""


def assumptions_page(surveys: Sequence[Survey]) -> str:
    """The page: the last survey by feature, the others as totals."""
    head = _HEAD.format(
        kinds="\n".join(f"| `{kind}` | {what} |" for kind, what in KINDS.items()),
        standings="\n".join(f"| {standing} | {what} |" for standing, what in STANDINGS.items()),
    )
    newest = surveys[-1]
    label = _release(newest)
    return "\n".join(
        [
            head,
            "## By release",
            "",
            *_by_release(surveys),
            "",
            "## Open places by feature and release",
            "",
            *_by_feature(surveys),
            "",
            f"## SGLang {label} by feature",
            "",
            *_of_newest(newest),
            "",
        ]
    )


def _release(survey: Survey) -> str:
    return version_of(survey.label) or survey.label


def _table(head: Iterable[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    names = list(head)
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' + '---:|' * (len(names) - 1)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def _by_release(surveys: Sequence[Survey]) -> Iterator[str]:
    yield from _table(
        ["release", "modules", *(f"`{kind}`" for kind in KINDS), *STANDINGS],
        (
            [
                _release(one),
                one.modules,
                *(one.number_of(kind=kind) for kind in KINDS),
                *(one.number_of(standing=standing) for standing in STANDINGS),
            ]
            for one in surveys
        ),
    )


def _by_feature(surveys: Sequence[Survey]) -> Iterator[str]:
    features = list(dict.fromkeys(name for one in reversed(surveys) for name in one.features))
    yield from _table(
        ["feature", *(_release(one) for one in surveys)],
        ([name, *(one.number_of(standing="open", feature=name) for one in surveys)] for name in features),
    )


def _of_newest(survey: Survey) -> Iterator[str]:
    yield from _table(
        ["feature", *(f"`{kind}`" for kind in KINDS), *STANDINGS],
        (
            [
                name,
                *(survey.number_of(kind=kind, feature=name) for kind in KINDS),
                *(survey.number_of(standing=standing, feature=name) for standing in STANDINGS),
            ]
            for name in survey.features
        ),
    )
