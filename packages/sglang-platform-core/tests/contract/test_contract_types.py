import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_platform.core.contract.capabilities import PlatformCapabilities
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.contract.types import DeviceCapability, kv_pool_kind
from sglang_platform.core.contract.version import CONTRACT_VERSION
from sglang_platform.core.errors import ContractError

SMALL = st.integers(min_value=0, max_value=99)
FLAGS = [
    "supports_triton",
    "graph_capture",
    "piecewise_graph",
    "hicache_device_kernels",
    "supports_pynccl",
    "fp8",
]


def test_capability_speaks_the_hosts_three_forms():
    capability = DeviceCapability(9, 0)
    assert capability.as_version_str() == "9.0"
    assert capability.to_int() == 90
    assert DeviceCapability(minor=9, major=8).to_int() == 89


@given(SMALL, SMALL, SMALL, SMALL)
def test_capability_orders_as_the_tuple_does(a, b, c, d):
    assert (DeviceCapability(a, b) < DeviceCapability(c, d)) == ((a, b) < (c, d))
    assert DeviceCapability(a, b) == (a, b)


@given(SMALL, SMALL, SMALL, SMALL)
def test_the_integer_form_is_one_to_one_or_refused(a, b, c, d):
    try:
        left, right = DeviceCapability(a, b).to_int(), DeviceCapability(c, d).to_int()
    except ValueError:
        assert b > 9 or d > 9
    else:
        assert (left == right) == ((a, b) == (c, d))


@pytest.mark.parametrize("minor", [10, -1, 100])
def test_a_minor_of_more_than_one_digit_is_refused_in_words(minor):
    with pytest.raises(
        ValueError, match=rf"DeviceCapability\(9, {minor}\).*minor must be one digit \(0 to 9\)"
    ):
        DeviceCapability(9, minor).to_int()


def test_the_contract_version_is_one_integer():
    assert CONTRACT_VERSION == 1


def test_nsa_is_read_as_dsa():
    assert [kv_pool_kind(kind) for kind in ("mha", "mla", "dsa", "nsa")] == ["mha", "mla", "dsa", "dsa"]


@given(st.text().filter(lambda text: text not in {*KINDS, "nsa"}))
def test_any_other_kind_is_refused_with_the_known_ones(kind):
    with pytest.raises(ValueError, match="the kinds are " + ", ".join(KINDS)):
        kv_pool_kind(kind)


def test_every_capability_is_false_until_it_is_claimed():
    assert {name: getattr(PlatformCapabilities(), name) for name in FLAGS} == dict.fromkeys(FLAGS, False)


def test_capabilities_are_frozen_and_by_keyword_only():
    with pytest.raises(AttributeError):
        PlatformCapabilities().fp8 = True
    with pytest.raises(TypeError):
        PlatformCapabilities(True)
    with pytest.raises(TypeError, match="support_triton"):
        PlatformCapabilities(support_triton=True)


@pytest.mark.parametrize("answer", ["yes", 1, None, lambda: True])
def test_a_capability_that_is_no_bool_is_refused(answer):
    with pytest.raises(ContractError, match="graph_capture="):
        PlatformCapabilities(graph_capture=answer)
