"""Walk a page in an empty folder: run each command, compare its output, make each edit, and tell the seconds.

`python walk_page.py PAGE FOLDER [--checkout FOLDER] [--from LINE] [--longest MINUTES]`; ends with 1 at the first step
that does not do what the page says.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from steps_of_page import PageCommandLine, steps_of


def walk(
    page: Path, folder: Path, checkout: Path, first: int = 0, longest: int = 60
) -> list[tuple[float, str]]:
    """The seconds of each command. Raises ValueError at the first step that fails."""
    taken, variables = [], dict(os.environ)
    for step in steps_of(page):
        if not isinstance(step, PageCommandLine):
            if step.line >= first:
                step.apply(folder)
                print(f"{page.name}:{step.line}: changed {step.file}", flush=True)
            continue
        words = shlex.split(step.text, comments=True)
        if words[0] == "cd":
            folder = folder / words[1]
        elif words[0] == "export":
            variables.update([words[1].split("=", 1)])
        elif step.line >= first and step.minutes <= longest:
            begun = time.monotonic()
            _run(step, page, folder, variables, checkout)
            taken.append((time.monotonic() - begun, step.text))
            print(f"{page.name}:{step.line}: {taken[-1][0]:.0f} s: {step.text}", flush=True)
    return taken


def _run(step: PageCommandLine, page: Path, folder: Path, variables: dict[str, str], checkout: Path) -> None:
    done = subprocess.run(
        step.text.replace("CHECKOUT", shlex.quote(str(checkout))),
        shell=True,
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    left = done.stdout
    for shown in step.shown:
        _, found, left = left.partition(shown)
        if not found:
            raise ValueError(
                f"{page.name}:{step.line}: {shown!r} is not in the output of {step.text}\n{done.stdout}"
            )
    if done.returncode:
        raise ValueError(f"{page.name}:{step.line}: status {done.returncode}: {step.text}\n{done.stdout}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--from", dest="first", type=int, default=0, help="go on at this line of the page")
    parser.add_argument("--longest", type=int, default=60, help="leave out commands of more minutes")
    options = parser.parse_args()
    try:
        taken = walk(options.page, options.folder, options.checkout, options.first, options.longest)
    except ValueError as error:
        sys.exit(str(error))
    print(f"{options.page.name}: {len(taken)} commands in {sum(s for s, _ in taken) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
