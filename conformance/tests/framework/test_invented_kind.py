"""A new kind of KV pool is a row, its class and the suite's fixture: cases, refusal and report follow from them."""

from __future__ import annotations

import inspect
from pkgutil import resolve_name

import invented_kind
import pytest
from in_process import FixedSubject, outcome
from invented_kind import KIND, LatentFixture, OneSlotOff, declares

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.checks.far_rows import far_pools
from sglang_platform.conformance.checks.pool_memory import plain_kinds
from sglang_platform.conformance.description import describe
from sglang_platform.conformance.fixtures.pool_kinds import FIXTURES
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.report.document import make_document
from sglang_platform.conformance.runner import Selection
from sglang_platform.core import SRTPlatform
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.contract.types import kv_pool_kind
from sglang_platform.core.errors import ContractError

OF_SOME_KINDS = (plain_kinds, far_pools)
"""Cases of kinds that core names: what has several GiB of rows, or scales of keys and of values."""

OF_ANY_KIND = [
    one.id
    for one in registered().values()
    if one.level is Level.MEMORY
    and one.cases not in OF_SOME_KINDS
    and any(requirement.name == "kv_pool" for requirement in one.requires)
]


@pytest.fixture(autouse=True)
def _row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, KIND.name, KIND)
    monkeypatch.setitem(FIXTURES, KIND.name, LatentFixture)


def test_the_contract_knows_the_kind_by_its_names() -> None:
    assert [kv_pool_kind(name) for name in ("latent", "lat", "nsa")] == ["latent", "latent", "dsa"]
    type("Right", (SRTPlatform,), {"supported_kv_kinds": ("latent",)})
    with pytest.raises(ContractError, match="did you mean 'latent'"):
        type("Wrong", (SRTPlatform,), {"supported_kv_kinds": ("latents",)})


def test_the_suites_own_platform_serves_it() -> None:
    assert ReferencePlatform().get_kv_pool_cls(kind="lat") is invented_kind.ReferenceLatentPool
    assert outcome(declares(), "contract.kv_kinds_are_served").status == "passed"


@pytest.mark.parametrize("check_id", OF_ANY_KIND)
def test_every_check_of_pools_takes_its_cases(check_id: str) -> None:
    found = outcome(declares(), check_id)
    assert (found.status, found.what) == ("passed", None)
    assert found.cases > 0


def test_a_defect_is_found() -> None:
    found = outcome(declares(OneSlotOff), "memory.store_reads_back")
    assert found.status == "failed"
    assert found.case is not None
    assert found.case["kind"] == "latent"


def test_a_pool_that_is_not_declared_is_told() -> None:
    found = outcome(ReferencePlatform, "contract.kv_kinds_are_served")
    assert found.status == "failed"
    assert "'latent' is not in supported_kv_kinds" in (found.what or "")


def test_the_report_lists_it() -> None:
    about = describe(FixedSubject(declares()()))
    checked = [outcome(declares(), "memory.store_reads_back")]
    document = make_document(Selection("in_process"), about, checked, ["core"], started=1.8e9, command="x")
    assert document["declares"]["kv_kinds"] == ["latent"]


def test_every_row_names_what_is_there() -> None:
    assert set(FIXTURES) == set(KINDS)
    for kind in KINDS.values():
        assert kind.row, kind.name
        parameters = inspect.signature(resolve_name(kind.base).__init__).parameters
        taken = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        assert taken or FIXTURES[kind.name].small.keys() <= set(parameters), kind.name
