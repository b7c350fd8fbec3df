import pytest


@pytest.mark.parametrize("program", ["import_the_contract.py", "define_and_break_platforms.py"])
def test_the_contract_needs_neither_torch_nor_numpy_nor_sglang(run_program, program):
    done = run_program(program)
    assert done.stderr == ""
    assert done.stdout.strip() == "[]"
