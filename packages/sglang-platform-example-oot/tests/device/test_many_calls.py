"""Short forms of the fuzz and of torch's operator tests; `nox -s fuzz_device` and `device_operators` are the long."""

from __future__ import annotations

import pytest


def test_a_process_that_dies_in_a_call_is_told(run) -> None:
    done = run("many_calls/deaths.py")
    assert done.stdout.strip() == "told", done.stderr


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("operators", ["sglang_example_oot", "aten"])
def test_hostile_calls_end_with_a_value_or_an_exception(operators: str, run) -> None:
    """Ends with 0 where no process died and all values that the CPU gives as well are the CPU's."""
    done = run("many_calls/fuzz.py", "--calls", "400", "--seed", "20", "--only", operators)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "400 calls" in done.stdout
    assert "'same'" in done.stdout, "nothing was compared"


@pytest.mark.long
@pytest.mark.usefixtures("native")
def test_torchs_own_operator_tests(run) -> None:
    """Each 150th of the tests of `op_db`."""
    done = run("many_calls/operator_suite.py", "--every", "150")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'passed'" in done.stdout
