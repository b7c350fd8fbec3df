"""What is known of a check: from its decorator and docstrings, from `why.toml`, and from the mutants that it kills."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import re
import sys
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from sglang_platform.conformance.check import Check
from sglang_platform.conformance.host.features.record import all_features
from sglang_platform.conformance.level import Level

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["CheckRecord", "known_mistakes", "mistakes_in", "record_of"]


@dataclass(frozen=True)
class CheckRecord:
    """One check, in words."""

    id: str
    asks: str
    why: str
    requires: Sequence[str]
    runs: str
    """Where, what must be there, and its time limit."""

    cases: str
    tolerance: str
    mistakes: Sequence[str]
    fix: str


def record_of(check: Check, mistakes: Mapping[str, Sequence[str]]) -> CheckRecord:
    """`mistakes` are those of all checks, by id: see `mistakes_in`."""
    module = check.function.__module__.rpartition(".")[2]
    about = _family(check) if check.level is Level.FEATURES else module
    tolerances = _texts()["tolerance_of"]
    return CheckRecord(
        check.id,
        check.proves,
        _texts()["why"].get(about, _texts()["level"][check.level.label]),
        [f"{one.name}: {one.means}" if one.means else one.name for one in check.requires],
        _runs(check),
        _cases(check),
        _texts()["tolerance"][tolerances.get(check.id, tolerances.get(module, "equal"))],
        mistakes.get(check.id, ()),
        check.fix,
    )


def mistakes_in(page: str) -> dict[str, list[str]]:
    """The defects of the broken platforms of `docs/mutants.md`, by the check that each fails."""
    found: dict[str, list[str]] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.fullmatch(r"`([a-z]+\.\w+)`", cells[3]) if len(cells) == 5 else None
        if name is not None:
            found.setdefault(name[1], []).append(cells[2])
    return found


def known_mistakes() -> dict[str, list[str]]:
    """Those of this edition, which `run_mutants.py --write` writes beside the page that it makes."""
    return json.loads(files(__package__).joinpath("mistakes.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _family(check: Check) -> str:
    """The module of the feature that the check is about."""
    name = check.id.partition(".")[2]
    (record,) = [one for one in all_features() if one.name == name]
    return record.function.__module__.rpartition(".")[2]


def _runs(check: Check) -> str:
    where = {("none",): "on the contract alone", ("sglang",): "with `--host sglang`"}.get(
        check.hosts, "on the contract alone, and in processes of SGLang"
    )
    needs = {"source": "the plugin's files", "platform": "its platform object", "device": "the device"}
    return f"{where}; needs {needs[check.needs]}; ended after {check.seconds:g} s"


def _cases(check: Check) -> str:
    """What the cases are, by the docstring of what makes them, and the fields that name one."""
    if check.cases is None:
        return "one"
    said = " ".join((inspect.getdoc(check.cases) or "").split()) if _is_plain(check.cases) else ""
    fields = _fields(check)
    named = f"named by {', '.join(f'`{name}`' for name in fields)}" if fields else ""
    return " ".join(filter(None, [said, f"Each is {named}." if named else ""])) or "several"


def _is_plain(cases: object) -> bool:
    return inspect.isfunction(cases) and not isinstance(cases, functools.partial)


def _fields(check: Check) -> list[str]:
    """The fields of the type of its cases."""
    parameters = list(inspect.signature(check.function).parameters)
    if len(parameters) < 2:
        return []
    try:
        kind = typing.get_type_hints(check.function).get(parameters[1])
    except NameError:  # a name that is imported for the type checker alone
        return []
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return []
    return [one.name for one in dataclasses.fields(kind)]


@functools.cache
def _texts() -> dict[str, dict[str, str]]:
    text = files("sglang_platform.conformance.pages").joinpath("why.toml").read_text("utf-8")
    return tomllib.loads(text)
