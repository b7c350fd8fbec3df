"""Level 1: what the distribution puts beside the packages of others, where every Python process finds it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import PurePath

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.checks.packaging import installed, metadata_of
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.discovery.distribution import normalize

__all__: list[str] = []

_RUN_BY_PYTHON = ("sitecustomize", "usercustomize")
_EVERYBODYS = (
    *("benchmarks", "common", "config", "configs", "docs", "examples", "helpers", "lib", "libs"),
    *("models", "scripts", "src", "test", "tests", "tools", "util", "utils"),
)
"""Names at the top that programs of operators, and slips of packaging, have as well."""

_NO_MODULES = (".dist-info", ".data", ".libs", ".pth")


@check(
    level=Level.PACKAGING,
    fix="ship one package with a name of your own, and nothing beside it; change what others brought with a hook, and"
    " leave what must come early to activate()",
)
def distribution_brings_only_its_own(subject: Subject) -> None:
    """No module of the distribution has the name of one of Python's, or one that everybody uses (utils, tests), or lies
    in a package of another distribution, but for a namespace that both share, and none of its files is run in every
    Python process: no sitecustomize, and no .pth file with code, but for that of an editable installation."""
    record = installed(subject)
    about = metadata_of(record)
    listed = about.read_text("RECORD") is not None
    files = [PurePath(one) for one in about.files or []] if listed else []
    tops = {name.partition(".")[0] for name, _ in subject.sources} | set(_tops(files))
    problems = [*_run_in_every_process(about, files, tops), *_others(about, tops)]
    expect(not problems, f"{record.origin} brings {'; '.join(problems)}")


def _tops(files: list[PurePath]) -> Iterator[str]:
    """Names of modules at the top, as they are imported."""
    for path in files:
        top = path.parts[0]
        if top != ".." and not top.endswith(_NO_MODULES) and path.suffix in (".py", ".pyd", ".so"):
            yield top.partition(".")[0]


def _run_in_every_process(
    about: metadata.Distribution, files: list[PurePath], tops: set[str]
) -> Iterator[str]:
    yield from (f"{name}, which every Python process runs" for name in _RUN_BY_PYTHON if name in tops)
    where = json.loads(about.read_text("direct_url.json") or "{}")
    if where.get("dir_info", {}).get("editable"):
        return
    for path in files:
        if path.suffix == ".pth" and len(path.parts) == 1:
            text = (about.read_text(f"../{path}") or "").splitlines()
            if any(line.startswith(("import ", "import\t")) for line in text):
                yield f"{path}, whose code every Python process runs"


def _others(about: metadata.Distribution, tops: set[str]) -> Iterator[str]:
    """Modules that others have under the same name: who is found first hides the other."""
    own, carriers = normalize(about.metadata["Name"]), metadata.packages_distributions()
    for top in sorted(tops):
        if top in sys.stdlib_module_names:
            yield f"the module {top}, which is Python's"
        if top in _EVERYBODYS:
            yield f"the module {top}, a name that others have as well: who is found first hides the other"
        for name in dict.fromkeys(carriers.get(top, ())):
            if normalize(name) == own:
                continue
            theirs = [str(one) for one in metadata.distribution(name).files or []]
            if f"{top}/__init__.py" in theirs or f"{top}.py" in theirs:
                yield f"the module {top}, which is {name}'s"
