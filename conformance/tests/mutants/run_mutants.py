"""Runs mutants, each with the check meant for it. `python run_mutants.py [NAME ...]` prints what killed them.

With `--resume FILE`, what became of each is written there as it ends, and those that the file says were killed are not
run again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutant import HERE, Installed, Mutant, all_mutants

from sglang_platform.conformance import pages
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.pages.record import mistakes_in
from sglang_platform.conformance.runner import Runner, Selection


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    outcome: Outcome

    @property
    def problem(self) -> str | None:
        """Why the mutant does not count as killed by the check meant for it."""
        if self.outcome.status != "failed":
            return f"it survives: {self.outcome.id} is {self.outcome.status} ({self.outcome.why})"
        if self.mutant.says not in self.message:
            return f"the message does not say {self.mutant.says!r}: {self.message}"
        if not self.outcome.fix:
            return "no fix is given"
        return None

    @property
    def message(self) -> str:
        return self.outcome.what or ""


def run_mutant(mutant: Mutant, *, seed: int = 0) -> Verdict:
    """Run the check meant for it on a mutant."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        if mutant.write is None:
            # Those in SGLang derive from the example; on the CPU's device type parts of SGLang can take a part's place.
            device = {"SGLANG_EXAMPLE_OOT_DEVICE": mutant.device} if mutant.host == "sglang" else {}
            installed = Installed(f"mutant={mutant.location}", device)
        else:
            installed = mutant.write(Path(folder))
        path = os.pathsep.join(filter(None, [folder, str(HERE), os.environ.get("PYTHONPATH")]))
        selection = Selection(
            installed.name,
            host=mutant.host,
            checks=(mutant.check + mutant.cases,),
            seed=seed,
            environment={"PYTHONPATH": path, "OMP_NUM_THREADS": "1", **installed.environment},
        )
        (outcome,) = Runner(selection).run()
        return Verdict(mutant, outcome)


class Kept:
    """What became of the mutants of an earlier run that was interrupted, one line of JSON for each."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
        self._earlier = [json.loads(line) for line in lines]

    def verdict(self, mutant: Mutant) -> Verdict | None:
        """Of a mutant that was killed then, by the check that is meant for it now."""
        of_its_name = [Outcome(**one["outcome"]) for one in self._earlier if one["mutant"] == mutant.name]
        killed = (Verdict(mutant, outcome) for outcome in of_its_name if outcome.id == mutant.check)
        return next((verdict for verdict in killed if verdict.problem is None), None)

    def keep(self, verdict: Verdict) -> None:
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            line = json.dumps(
                {"mutant": verdict.mutant.name, "outcome": asdict(verdict.outcome)}, default=str
            )
            with self.file.open("a", encoding="utf-8") as log:
                log.write(f"{line}\n")


def run_all(names: list[str], jobs: int = 2, kept: Path | None = None) -> list[Verdict]:
    """Run the named mutants or levels, or all. Those that need an engine run one after the other, at the end."""
    chosen = [one for one in all_mutants() if not names or one.name in names or one.level in names]
    earlier = Kept(kept)
    verdicts = [verdict for one in chosen if (verdict := earlier.verdict(one)) is not None]
    known = {verdict.mutant.name for verdict in verdicts}
    left = [one for one in chosen if one.name not in known]
    with ThreadPoolExecutor(jobs) as pool:
        verdicts += pool.map(lambda one: _told(one, earlier), (one for one in left if one.host == "none"))
    verdicts += [_told(one, earlier) for one in left if one.host != "none"]
    return sorted(verdicts, key=lambda verdict: _place(verdict.mutant))


def _place(mutant: Mutant) -> tuple[Level, str, str]:
    """In the table, whether the verdict is of this run or kept from an earlier one."""
    return Level.parse(mutant.level), mutant.check, mutant.name


def _told(mutant: Mutant, kept: Kept) -> Verdict:
    verdict = run_mutant(mutant)
    kept.keep(verdict)
    state = verdict.problem or f"killed: {verdict.message.splitlines()[0]}"
    print(f"{mutant.name} [{mutant.check}] {verdict.outcome.seconds:.1f} s {state}", flush=True)
    return verdict


_HEAD = """# Mutants

The suite is tested by broken platforms: each has one realistic defect, and must fail the check that is meant for it,
with a message that names the cause and a fix. Written by `nox -s mutants`; do not edit.

"""


def table(verdicts: list[Verdict]) -> str:
    """The page, one row per mutant."""
    killed = sum(verdict.problem is None for verdict in verdicts)
    lines = [f"{killed} of {len(verdicts)} are killed, each by its own check.", ""]
    lines += ["| level | mutant | its defect | killed by | message |", "| --- | --- | --- | --- | --- |"]
    for verdict in verdicts:
        mutant = verdict.mutant
        message = verdict.problem or _short(verdict.message)
        check = f"`{mutant.check}`" if verdict.problem is None else "**nothing**"
        cells = (mutant.level, mutant.name, mutant.defect, check, message)
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return _HEAD + "\n".join(lines) + "\n"


def write(page: Path, text: str) -> None:
    """The page, and its defects by check in the suite, whose pages tell them as the usual mistakes."""
    page.write_text(text, encoding="utf-8")
    mistakes = json.dumps(mistakes_in(text), indent=1, ensure_ascii=False)
    Path(pages.__file__).with_name("mistakes.json").write_text(mistakes + "\n", encoding="utf-8")


def _short(message: str) -> str:
    """The first line, without the folders of this machine and of this run."""
    line = re.sub(r"/\S*/(?:mutant-\w+|site-packages|models)/", "", message.strip().splitlines()[0])
    line = line.replace(f"{HERE.parents[2]}/", "")
    line = re.sub(r"device-\d+-", "device-N-", line).replace(str(Path.home()), "~")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


_LONGEST = 240


def main() -> int:
    parser = argparse.ArgumentParser(description="Broken platforms, each put to the check meant for it.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants or levels; by default all")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="where to write the table, where all are run"
    )
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="where verdicts are kept; those killed stay so"
    )
    asked = parser.parse_args()
    verdicts = run_all(asked.names, kept=asked.resume)
    survivors = [verdict for verdict in verdicts if verdict.problem]
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants killed by the check meant for them")
    if asked.write is not None and not asked.names:
        write(asked.write, table(verdicts))
    return 1 if survivors or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
