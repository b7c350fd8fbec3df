"""Mutations of whole packages, a seeded sample of them, each asked about by the checks that run its line.

    python run_packages.py --sample 80 --seed 0 --write docs/mutants_generated.md

What is judged is kept in `.nox/mutations/`, so that a larger sample of the same seed goes on from there. The record of
who runs which line is made first, in half an hour, where there is none (`seen.py`).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from areas import AREAS, ROOT, Area
from cpp import cpp_mutations
from generated_mutations import Mutation, mutations, places
from judged import Judged, judge
from packages_page import with_section
from seen import RECORD, read
from survivors import explanation

_JUDGED = RECORD.parent / "judged.jsonl"


def sample(count: int, seed: int, chosen: Sequence[Area] = AREAS) -> Iterator[tuple[str, Mutation]]:
    """(area, mutation), each area's by its share, mixed: the first of a larger sample are a smaller one."""
    streams = [(area.name, _drawn(area, random.Random(f"{seed} {area.name}"))) for area in chosen]
    turns = [at for at, area in enumerate(chosen) for _ in range(area.share)]
    order = random.Random(seed)
    left = count
    while left > 0:
        order.shuffle(turns)
        for at in turns[:left]:
            name, stream = streams[at]
            yield from ((name, one) for one in islice(stream, 1))
        left -= len(turns)


def _drawn(area: Area, rng: random.Random) -> Iterator[Mutation]:
    numbered = [
        (path, number)
        for path in area.files()
        for number, _ in enumerate(
            cpp_mutations("", path.read_text()) if path.suffix == ".cpp" else places(path.read_text())
        )
    ]
    rng.shuffle(numbered)
    for path, number in numbered:
        file, text = str(path.relative_to(ROOT)), path.read_text()
        if path.suffix == ".cpp":
            yield cpp_mutations(file, text)[number]
        else:
            yield from mutations(file, text, {number})


def judged_before() -> dict[str, Judged]:
    """By area and name."""
    if not _JUDGED.exists():
        return {}
    found = [Judged(**json.loads(line)) for line in _JUDGED.read_text().splitlines()]
    return {f"{one.area} {one.line} {one.name}": one for one in found}


def run(count: int, seed: int, chosen: Sequence[Area] = AREAS, *, again: bool = False) -> list[Judged]:
    """Judges the sample. again: ask about the survivors of an earlier run once more."""
    before, seen, results = judged_before(), read(), []
    for area, mutation in sample(count, seed, chosen):
        known = before.get(f"{area} {mutation.line} {mutation.name}")
        if known is None or (again and known.killer is None):
            known = judge(area, mutation, seen)
            with _JUDGED.open("a") as file:
                file.write(json.dumps(known.as_dict()) + "\n")
        results.append(known)
        state = f"killed by {known.killer}" if known.killer else "SURVIVES" if known.asked else "not run"
        print(f"{len(results)} {known.file}:{known.line} {known.kind}: {state}", flush=True)
        if known.killer is None:
            print(f"    - {known.old}\n    + {known.new}", flush=True)
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=80, help="how many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--again", action="store_true", help="ask about the survivors of an earlier run again"
    )
    parser.add_argument("--write", type=Path, help="the page whose section is written")
    parser.add_argument(
        "--area", action="append", choices=[area.name for area in AREAS], help="only this part"
    )
    given = parser.parse_args(arguments)
    chosen = [area for area in AREAS if given.area is None or area.name in given.area]
    results = run(given.sample, given.seed, chosen, again=given.again)
    alive = [one for one in results if one.killer is None and one.asked]
    unexplained = [one for one in alive if explanation(one) is None]
    killed = sum(one.killer is not None for one in results)
    print(f"{killed} of {len(results)} killed; {len(unexplained)} of {len(alive)} survivors unexplained")
    if given.write is not None:
        text = given.write.read_text(encoding="utf-8")
        given.write.write_text(with_section(text, results, given.seed), encoding="utf-8")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
