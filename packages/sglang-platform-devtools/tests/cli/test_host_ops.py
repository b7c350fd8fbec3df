"""`sglang-platform host ops`: the ops of a release by name, told from its sources."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from sglang_platform.core.ops.fused_op import contract_ops

OPS = {
    "kernels/fused_op.py": "class BaseFusedOp:\n    def forward(self, *args): ...\n",
    "layers/norm.py": """
from sglang.kernels.fused_op import BaseFusedOp

class RMSNorm(BaseFusedOp):
    def forward_native(self, x): return x

class WiderNorm(RMSNorm):
    def forward_native(self, x): return 2 * x

class Stubborn(BaseFusedOp):
    def forward(self, x): return x

class NoOp:
    def forward(self, x): return x
""",
    "layers/more.py": """
from sglang.layers import norm as norms

class FromAnotherModule(norms.Stubborn):
    pass
""",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A source folder of an SGLang that has four ops, laid out as its repository."""
    package = tmp_path / "checkout" / "python" / "sglang"
    for name, text in {"__init__.py": "", "kernels/__init__.py": "", "layers/__init__.py": "", **OPS}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return tmp_path / "checkout"


def test_each_op_has_its_module_and_what_the_contract_calls_it(command, checkout) -> None:
    run = command("host", "ops", "--host", str(checkout))
    assert run.returncode == 0, run.stderr
    title, _, *rows = run.stdout.splitlines()
    assert title == f"{checkout}: 4 fused ops"
    assert [row.split()[:2] for row in rows] == [
        ["FromAnotherModule", "sglang.layers.more"],
        ["RMSNorm", "sglang.layers.norm"],
        ["Stubborn", "sglang.layers.norm"],
        ["WiderNorm", "sglang.layers.norm"],
    ]
    assert rows[1].endswith("layernorm.rms_norm")
    for row in (rows[0], rows[2]):  # its own forward, or that of its base
        assert row.endswith("has a forward of its own: none is asked for")
    assert rows[3].split() == ["WiderNorm", "sglang.layers.norm", "-"]


def test_as_json(command, checkout) -> None:
    document = command.json("host", "ops", "--host", str(checkout))
    assert document["host"] == str(checkout)
    assert document["ops"][1] == {
        "name": "RMSNorm",
        "module": "sglang.layers.norm",
        "own_forward": False,
        "contract": "layernorm.rms_norm",
    }
    assert [row["own_forward"] for row in document["ops"]] == [True, False, True, False]


def test_a_host_that_cannot_be_read_is_refused(command, tmp_path) -> None:
    run = command("host", "ops", "--host", str(tmp_path / "nowhere"))
    assert run.returncode == 2
    assert "is no host that can be read" in run.stdout + run.stderr
    document = command.json("host", "ops", "--host", "0.4.0", status=2)
    assert "0.4.0" in str(document)


def test_the_ops_of_the_installed_release_have_the_names_of_the_contract(command) -> None:
    found = importlib.util.find_spec("sglang")
    assert found is not None
    assert found.origin is not None
    document = command.json("host", "ops", "--host", str(Path(found.origin).parent))
    told = {row["contract"]: row["name"] for row in document["ops"] if row["contract"]}
    assert told == {op.op: op.class_name() for op in contract_ops().values() if op.op in told}
    assert {"layernorm.rms_norm", "moe.experts", "moe.topk", "rotary.mrope"} <= told.keys()
