"""Which reports of a sanitizer are left out: only of calls that the CPU alone dies of, in the same function."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

FILE = Path(__file__).parent / "programs" / "sanitizers" / "sanitizers.py"
TOLD = "call 7 of seed 1, aten::_stack.out: ended with 1"
ALONE = f"{TOLD}, and so does the CPU alone"
NOT_FATAL = "decode.cpp:12:3: runtime error: signed integer overflow"


@pytest.fixture(scope="module")
def reports_in() -> Callable[[str], list[str]]:
    return runpy.run_path(str(FILE))["reports_in"]


def death(function: str, why: str = "SEGV on unknown address 0x000000000000") -> str:
    return f"""AddressSanitizer:DEADLYSIGNAL
=================================================================
==11==ERROR: AddressSanitizer: {why} (pc 0x7f01 bp 0x7ffc sp 0x7ffb T0)
==11==The signal is caused by a READ memory access.
    #0 0x7f0123456789 in {function} (/site-packages/torch/lib/libtorch_cpu.so+0x1234567)
    #1 0x7f0123456799 in at::_ops::call(c10::IValue const&) (/site-packages/torch/lib/libtorch_cpu.so+0x234)

SUMMARY: AddressSanitizer: SEGV (/site-packages/torch/lib/libtorch_cpu.so+0x1234567) in {function}"""


def bad_free(function: str) -> str:
    return f"""=================================================================
==11==ERROR: AddressSanitizer: attempting free on address which was not malloc()-ed: 0x609000000b80 in thread T0
    #0 0x7f0123456789 in __interceptor_free ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:52
    #1 0x7f0123456799 in std::vector<at::Tensor>::~vector() (/site-packages/torch/lib/libtorch_cpu.so+0x234)
    #2 0x7f01234567a9 in {function} (/site-packages/torch/lib/libtorch_cpu.so+0x1234567)

0x609000000b80 is located 0 bytes inside of 200-byte region"""


STACK = "at::native::(anonymous namespace)::stack_kernel(at::Tensor&, long)"


def test_a_call_that_the_cpu_dies_of_alike_is_torchs_own(reports_in: Callable[[str], list[str]]) -> None:
    for one in (death(STACK), death(STACK, "FPE on unknown address 0x7f0123456789"), bad_free(STACK)):
        assert reports_in(f"{one}\n{one}\n{ALONE}\ndone") == []


@pytest.mark.parametrize(
    "lines",
    [
        [death(STACK), TOLD],
        [death(STACK)],
        [death(STACK), death(STACK)],
        [death(STACK), ALONE],
        [death("memcpy"), death(STACK), ALONE],
        [bad_free("at::native::_stack"), bad_free(STACK), ALONE],
        [bad_free(STACK), death(STACK), ALONE],
        [bad_free(STACK), bad_free(STACK), TOLD],
        [death(STACK), death(STACK), death(STACK), ALONE],
        [death(STACK, "BUS on unknown address"), death(STACK, "BUS on unknown address"), ALONE],
        [NOT_FATAL, death(STACK), death(STACK), ALONE],
        [death(STACK), death(STACK), ALONE, NOT_FATAL],
        [death(STACK), death(STACK), ALONE, death(STACK), TOLD],
    ],
    ids=[
        "the CPU lives",
        "no fuzz",
        "nobody tells",
        "one died without a report",
        "elsewhere",
        "freed elsewhere",
        "in another way",
        "the CPU frees what it may",
        "one more",
        "another signal",
        "and ours before",
        "and ours after",
        "and a later call",
    ],
)
def test_all_others_are_told(lines: list[str], reports_in: Callable[[str], list[str]]) -> None:
    assert reports_in("\n".join(lines))


@pytest.mark.parametrize(("start", "programs"), [(0, 5), (2000, 2)])
def test_a_long_fuzz_is_cut_in_parts(start: int, programs: int, tmp_path: Path) -> None:
    class Runs:
        sanitizer = SimpleNamespace(name="address")
        commands: ClassVar[list[tuple[str, ...]]] = []

        def run(self, what: str, *command: str, **environment: str) -> bool:
            self.commands.append(command)
            return True

    assert runpy.run_path(str(FILE))["_programs"](Runs(), 1000, start, tmp_path)
    assert len(Runs.commands) == programs
    fuzz = Runs.commands[-1]
    assert fuzz[fuzz.index("--start") + 1] == str(start)
    assert fuzz[fuzz.index("--calls") + 1] == "1000"
    assert "--only" not in fuzz
