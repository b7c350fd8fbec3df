"""Forwards registered for fused ops, in what `torch.compile` compiles: traced whole, with plain calls' results."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.host


@pytest.mark.long
def test_every_op_of_the_example_is_traced_without_a_break(monkeypatch, run_program) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "example_oot")
    done = run_program("compile_fused_ops.py", timeout=600)
    cells = {
        f"{op}, {mode}": cell for op, modes in json.loads(done.stdout).items() for mode, cell in modes.items()
    }
    assert len(cells) >= 80
    right, breaks, error = True, 0, ""
    assert {name: cell for name, cell in cells.items() if cell != [right, breaks, error]} == {}
