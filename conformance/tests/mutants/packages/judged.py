"""One mutation, judged: changed, asked about, and what killed it."""

from __future__ import annotations

import ast
import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from areas import KERNELS_OF, ROOT, module_of
from asking import ask
from cpp import EXAMPLE, built, loading
from generated_mutations import Mutation
from seen import RECORD, Seen, judges_of

__all__ = ["Judged", "judge"]

_SECONDS = 600.0
_MOST = 60.0
"""Seconds of judges, as the record has them, that one mutation is asked about: the quickest first."""

_NEAR = 3
_QUICK = 0.5
_WHOLE = 1 << 20


@dataclass(frozen=True)
class Judged:
    """`killer` is None where every judge that runs the line passed; `asked` is how many did, 0 where none runs it."""

    area: str
    file: str
    line: int
    kind: str
    old: str
    new: str
    killer: str | None
    message: str
    asked: int
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.file}: {self.old} -> {self.new}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def judge(area: str, mutation: Mutation, seen: Seen) -> Judged:
    """Asks the judges that run the changed line, the quickest first, or those of nearby lines where none does; of what
    is run at the import, those of the whole file and every quick check."""
    groups = _judges(mutation, seen)
    found: tuple[str | None, str] = (None, "")
    asked, seconds = 0, 0.0
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        try:
            changed = _changed(mutation, Path(folder)) if groups else ""
        except RuntimeError as error:
            groups, found = [], ("the compiler", str(error))
        for judges in (_affordable(judges, seen) for judges in groups):
            if found[0] is not None:
                break
            for answer in ask(judges, {"CHANGED_MODULE": changed}, seconds=_SECONDS):
                asked, seconds = asked + 1, seconds + answer.seconds
                if answer.failed is not None:
                    found = (answer.judge, answer.failed)
    message = found[1].strip().splitlines()[0][:300] if found[1].strip() else ""
    told = (mutation.line, mutation.kind, mutation.old, mutation.new)
    return Judged(area, mutation.file, *told, found[0], message, asked, round(seconds, 1))


def _affordable(judges: Sequence[str], seen: Seen) -> Sequence[str]:
    """The first of them, one at least."""
    spent = list(itertools.accumulate(seen[judge]["seconds"] for judge in judges))
    return judges[: max(1, sum(seconds <= _MOST for seconds in spent))]


def _judges(mutation: Mutation, seen: Seen) -> list[list[str]]:
    if mutation.file.endswith(".cpp"):
        return _of_cpp(mutation, seen)
    line, function = mutation.line, _function(mutation)
    if function is None:
        return _of_import(mutation, seen)
    for lines in (range(line, line + 1), range(line - _NEAR, line + _NEAR + 1), function):
        groups = judges_of(seen, mutation.file, lines)
        if groups:
            return groups
    return []


def _function(mutation: Mutation) -> range | None:
    """The lines of the smallest function around the line; None where it is run at the import."""
    around = [
        node
        for node in ast.walk(ast.parse((ROOT / mutation.file).read_text()))
        if isinstance(node, ast.FunctionDef)
        and node.body[0].lineno <= mutation.line <= (node.end_lineno or 0)
    ]
    if not around:
        return None
    inner = max(around, key=lambda node: node.lineno)
    return range(inner.lineno, (inner.end_lineno or inner.lineno) + 1)


def _of_import(mutation: Mutation, seen: Seen) -> list[list[str]]:
    """Those that run anything of the file, and every quick check: who imports it first is not who reads what the import
    left."""
    checks, others = [], []
    for judges in judges_of(seen, mutation.file, range(1, _WHOLE)):
        (checks if judges[0].startswith("check:") else others).append(judges)
    quick = {
        judge
        for judge, one in seen.items()
        if judge.startswith("check:") and one["failed"] is None and one["seconds"] <= _QUICK
    }
    every = sorted(quick.union(*checks), key=lambda judge: (judge not in quick, seen[judge]["seconds"]))
    return [judges for judges in (every, *others) if judges]


_WORDS = {"activation": "silu", "rotary": "rotary", "norm": "norm", "moe": "moe"}
"""Words of the checks of an operation that has checks of its own."""


def _of_cpp(mutation: Mutation, seen: Seen) -> list[list[str]]:
    name = Path(mutation.file).stem
    wrapper = str((EXAMPLE / KERNELS_OF[name]).relative_to(ROOT))
    (checks, *_) = judges_of(seen, wrapper, range(1, 1000)) or [[]]
    chosen = [one for one in checks if _WORDS.get(name, "") in one]
    return [chosen] if chosen else []


def _changed(mutation: Mutation, folder: Path) -> str:
    """CHANGED_MODULE for it."""
    if mutation.file.endswith(".cpp"):
        library = built(mutation, RECORD.parent / "cpp")
        file, module = folder / "native.py", "sglang_platform.example_oot.kernels.native"
        text = loading(library, folder)
    else:
        path = ROOT / mutation.file
        file, module, text = folder / path.name, module_of(path), mutation.text
    file.write_text(text)
    return f"{module}={file}"
