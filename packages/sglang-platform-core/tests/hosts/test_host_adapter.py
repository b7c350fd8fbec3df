"""The adapter against the installed SGLang: classes re-based, answers translated. No engine is started."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sglang_platform.core.ops.fused_op import contract_ops
from sglang_platform.core.sglang.arguments.server_args import choose_attention_backend
from sglang_platform.core.sglang.versions import facts
from sglang_platform.devtools.op_classes import installed_ops

pytestmark = pytest.mark.host

_LONG = 600  # seconds: imports of the host, on a machine that may be busy


@pytest.fixture
def on_the_example(monkeypatch) -> None:
    """The example under torch's own device type, so that pools can be built without its device library."""
    monkeypatch.setenv("SGLANG_PLATFORM", "example_oot")
    monkeypatch.setenv("SGLANG_EXAMPLE_OOT_DEVICE", "cpu")


def test_platform_and_parts_are_the_hosts_and_the_vendors(on_the_example, run_program) -> None:
    run_program("share_the_platform.py", timeout=_LONG)


def test_ops_are_served_by_the_name_of_their_class(on_the_example, run_program) -> None:
    run_program("serve_ops_by_name.py", timeout=_LONG)


def test_the_installed_host_has_the_ops_of_the_contract() -> None:
    found = installed_ops(facts().op_class)
    assert found["Llama4VisionRotaryEmbedding"].own_forward
    assert not found["Llama3RotaryEmbedding"].own_forward
    assert {op.class_name() for op in contract_ops().values()} <= set(found)


def test_core_touched_before_the_host_gives_the_same_object(on_the_example, run_program) -> None:
    run_program("touch_core_before_the_host.py", timeout=_LONG)


def test_a_host_pool_built_with_the_hosts_keywords_stores_through_the_vendor(
    on_the_example, run_program
) -> None:
    run_program("store_in_a_host_pool.py", timeout=_LONG)


def test_a_kind_of_pool_that_a_platform_lacks_is_refused_only_when_it_is_built(
    on_the_example, run_program
) -> None:
    run_program("build_a_lacking_pool.py", timeout=_LONG)


def test_other_kinds_of_pool_are_rebased_and_what_is_no_pool_is_refused_by_name(
    on_the_example, run_program
) -> None:
    run_program("rebase_other_pools.py", timeout=_LONG)


def test_a_pool_of_a_plugins_own_kind_is_rebased_on_what_the_kind_names(on_the_example, run_program) -> None:
    run_program("rebase_a_pool_of_a_plugins_kind.py", timeout=_LONG)


def test_the_operators_attention_backend_is_kept() -> None:
    asked = SimpleNamespace(attention_backend="filled-in", _raw_input={"attention_backend": "torch_native"})
    choose_attention_backend(asked, "ours")
    assert asked.attention_backend == "filled-in"
    silent = SimpleNamespace(attention_backend="filled-in", _raw_input={"attention_backend": None})
    choose_attention_backend(silent, "ours")
    assert silent.attention_backend == "ours"


def test_a_host_that_refuses_names_it_does_not_know_takes_our_platform(on_the_example, run_program) -> None:
    run_program("refuse_unknown_names_in_the_host.py", timeout=_LONG)
