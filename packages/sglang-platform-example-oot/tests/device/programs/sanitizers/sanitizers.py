"""The device's C++ part under AddressSanitizer with UBSan, and under ThreadSanitizer; any report is a failure.

    sanitizers.py [--only address|thread] [--calls 3000] [--start 0] [--work DIR]

Builds with gcc, makes sure that the sanitizer tells of defects made on purpose, then runs the checks of the device, the
tests of the kernels and the fuzz. What is left out of the reports, and why, stands in `*.supp`; the fuzz makes a call
that died again on the CPU alone, and where both died alike in one function, that is torch's own. A long fuzz is cut in
parts by `--start`, the number of its first call; a part that does not begin at 0 is the fuzz alone.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = HERE.parent
KERNEL_TESTS = PROGRAMS.parent.parent / "kernels"
FLAGS = "-O1 -g1 -fno-omit-frame-pointer"
REPORT = re.compile(
    r"ERROR: (?:Address|Thread)Sanitizer|runtime error:|WARNING: ThreadSanitizer|DEADLYSIGNAL"
)
NOT_A_DEATH = re.compile(r"runtime error:|WARNING: ThreadSanitizer")
DEATH = re.compile(r"(?=^==\d+==ERROR: \w+Sanitizer: )", re.MULTILINE)
OF_TORCH = re.compile(r"ERROR: \w+Sanitizer: (SEGV|FPE|attempting free)")
"""How torch's own kernels die: memory that is not there, a division by zero, memory that is not theirs to free."""
FRAME = re.compile(r"#\d+ (?:0x[0-9a-f]+ in )?(at::\S[^\n]*?) \((?=\S+\+0x)")
CALL = re.compile(r"^call \d+ of seed [^\n]*?(?P<alone>, and so does the CPU alone)?$", re.MULTILINE)
"""What the fuzz says of a call after all reports of it: those of the device and, in a new process, of the CPU."""


@dataclass(frozen=True)
class Sanitizer:
    """`libraries` go in front of all others; `controls` are the functions of control.cpp that it must tell of."""

    name: str
    flags: str
    libraries: tuple[str, ...]
    controls: tuple[str, ...]
    options: dict[str, str]


SANITIZERS = [
    Sanitizer(
        "address",
        "-fsanitize=address,undefined -fno-sanitize=vptr",
        ("asan", "ubsan", "stdc++"),
        ("past_the_end", "overflow"),
        {
            # Leaks: what torch and Python keep to the end of a process is theirs, and ours is kept on purpose.
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=8192",
            "UBSAN_OPTIONS": f"print_stacktrace=1:suppressions={HERE}/undefined.supp",
        },
    ),
    Sanitizer(
        "thread",
        "-fsanitize=thread",
        ("tsan", "stdc++"),
        ("race",),
        {
            # Torch and Python are not instrumented: what they do to memory of their own is theirs.
            "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:die_after_fork=0:exitcode=0"
            f":allocator_may_return_null=1:max_allocation_size_mb=8192:suppressions={HERE}/thread.supp",
            "OMP_NUM_THREADS": "1",  # libgomp is not instrumented: nobody sees its threads wait for each other
        },
    ),
]


def _library(name: str) -> str:
    found = subprocess.run(
        ["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True, check=True
    )
    path = Path(found.stdout.strip())
    if not path.is_absolute():
        raise SystemExit(f"gcc has no lib{name}.so here; install its sanitizers")
    return str(path.resolve())


def reports_in(text: str) -> list[str]:
    """The reports in what a program printed, without those of calls that the fuzz saw the CPU alone die of as well."""
    found, start = [], 0
    for told in [*CALL.finditer(text), None]:
        part = text[start : told.start() if told else len(text)]
        reports = [part[match.start() :] for match in REPORT.finditer(part)]
        if told is None or not told["alone"] or not _died_alike(part):
            found += [one[:4000] for one in reports]
        start = told.end() if told else len(text)
    return found


def _died_alike(part: str) -> bool:
    """Whether all there is are two deaths of one kind, of the call and of the CPU alone, in one function of torch."""
    _, *deaths = DEATH.split(part)
    kinds = {kind[1] if (kind := OF_TORCH.search(death)) else None for death in deaths}
    where = {frame[1] if (frame := FRAME.search(death)) else None for death in deaths}
    others = NOT_A_DEATH.search(part)
    return not others and len(deaths) == 2 and len(kinds) == len(where) == 1 and None not in kinds | where


class Runs:
    """Programs under one sanitizer."""

    def __init__(self, sanitizer: Sanitizer, work: Path) -> None:
        self.sanitizer, self.log = sanitizer, work / f"{sanitizer.name}.log"
        self.environment = {
            **os.environ,
            "LD_PRELOAD": " ".join(map(_library, sanitizer.libraries)),
            "SGLANG_EXAMPLE_OOT_CACHE": str(work / "built"),
            "SGLANG_EXAMPLE_OOT_CXXFLAGS": f"{FLAGS} {sanitizer.flags}",
            "SGLANG_EXAMPLE_OOT_NATIVE": "1",
            "PYTEST_ADDOPTS": "-s",  # what it prints is read here
            "SGLANG_EXAMPLE_OOT_CORES": "3",
            "SGLANG_EXAMPLE_OOT_MEMORY": str(1 << 29),
            "SGLANG_EXAMPLE_OOT_DEVICES": "2",
            **sanitizer.options,
        }

    def run(self, what: str, *command: str, **environment: str) -> bool:
        """True where the program ended well and there is no report."""
        started = time.monotonic()
        code, found = self._reports(*command, **environment)
        print(
            f"{self.sanitizer.name}: {what}: ended with {code}, {len(found)} reports, "
            f"{time.monotonic() - started:.0f} s",
            flush=True,
        )
        for report in found:
            print(report)
        if code and not found:
            print(self.log.read_text(errors="replace")[-3000:])
        return code == 0 and not found

    def _reports(self, *command: str, **environment: str) -> tuple[int, list[str]]:
        """How the program ended, and the reports in what it printed."""
        with self.log.open("w") as log:
            done = subprocess.run(
                [sys.executable, *command],
                env={**self.environment, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        text = self.log.read_text(errors="replace")
        return done.returncode, reports_in(text)

    def tells(self, control: Path) -> bool:
        """Whether it tells of the defects made on purpose."""
        subprocess.run(
            [
                "g++",
                *f"{FLAGS} {self.sanitizer.flags} -shared -fPIC -o".split(),
                control,
                HERE / "control.cpp",
            ],
            check=True,
        )
        for function in self.sanitizer.controls:
            if not self._reports(str(HERE / "control.py"), str(control), function)[1]:
                print(f"{self.sanitizer.name}: it does not tell of {function} in control.cpp")
                return False
        print(
            f"{self.sanitizer.name}: tells of {', '.join(self.sanitizer.controls)} in control.cpp", flush=True
        )
        return True


def _programs(runs: Runs, calls: int, start: int, work: Path) -> bool:
    part = ("--calls", str(calls), "--start", str(start))
    fuzz = (str(PROGRAMS / "many_calls" / "fuzz.py"), *part, "--patience", "300")
    good = runs.run("build", str(HERE / "build.py"))
    if start:
        return good and runs.run(f"fuzz from call {start}", *fuzz)
    good = good and runs.run(
        "checks of the device", str(PROGRAMS / "run_checks.py"), str(work / "outcomes.jsonl")
    )
    if runs.sanitizer.name == "address":
        # The host waits for each task, so that memory is closed as soon as it is freed.
        waits = {"SGLANG_EXAMPLE_OOT_BLOCKING": "1"}
        good &= runs.run("fuzz of the kernels", *fuzz, "--only", "sglang_example_oot", **waits)
        tests = [f"test_{name}.py" for name in ("attention", "fused_ops", "linear", "moe", "short_conv")]
        options = ("-q", "-p", "no:cacheprovider", "-k", "native or not torch")
        good &= runs.run(
            "tests of the kernels", "-m", "pytest", *options, *(str(KERNEL_TESTS / t) for t in tests)
        )
    return runs.run("fuzz", *fuzz) and good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["address", "thread"])
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--start", type=int, default=0, help="the number of the fuzz's first call")
    parser.add_argument("--work", type=Path, default=Path(".nox/sanitizers"), help="where it builds")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    good = True
    for sanitizer in SANITIZERS:
        if options.only in (None, sanitizer.name):
            runs = Runs(sanitizer, work)
            good = (
                runs.tells(work / f"control_{sanitizer.name}.so")
                and _programs(runs, options.calls, options.start, work)
                and good
            )
    print("no reports" if good else "there are reports, or a program did not end well")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
