"""Runs mutants, each with the check meant for it. `python run_mutants.py [NAME ...]` prints what killed them."""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutant import HERE, Installed, Mutant, all_mutants

from sglang_platform.conformance.outcome import Outcome
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
            installed = Installed(f"mutant={mutant.location}", {})
        else:
            installed = mutant.write(Path(folder))
        path = os.pathsep.join(filter(None, [folder, str(HERE), os.environ.get("PYTHONPATH")]))
        selection = Selection(
            installed.name,
            host=mutant.host,
            checks=(mutant.check,),
            seed=seed,
            environment={"PYTHONPATH": path, "OMP_NUM_THREADS": "1", **installed.environment},
        )
        (outcome,) = Runner(selection).run()
        return Verdict(mutant, outcome)


def run_all(names: list[str], jobs: int = 2) -> list[Verdict]:
    """Run the named mutants, or all."""
    chosen = [one for one in all_mutants() if not names or one.name in names or one.level in names]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run_mutant, chosen))


def main() -> int:
    verdicts = run_all(sys.argv[1:])
    for verdict in verdicts:
        state = verdict.problem or f"killed: {verdict.message.splitlines()[0]}"
        print(f"{verdict.mutant.name} [{verdict.mutant.check}] {verdict.outcome.seconds:.1f} s {state}")
    survivors = [verdict for verdict in verdicts if verdict.problem]
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants killed by the check meant for them")
    return 1 if survivors or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
