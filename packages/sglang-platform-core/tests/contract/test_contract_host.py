"""The contract against the installed SGLang: every public name of the host's, with its parameters and
defaults."""

import dataclasses
import inspect

import pytest

from sglang_platform.core.contract import (
    CpuArchEnum,
    DeviceCapability,
    DeviceMixin,
    MMPlatform,
    PlatformCapabilities,
    PlatformEnum,
    SRTPlatform,
    public_names,
)
from sglang_platform.core.contract.members import kind_of
from sglang_platform.core.contract.signatures import bound_signature, broken_calls

pytestmark = pytest.mark.host

# Names of core's own, which the adapter carries into the host.
OURS = {
    "attention_features",
    "extra_public_names",
    "finalize_server_args",
    "get_host_memory_cls",
    "get_memory_saver_cls",
    "get_attention_backends",
    "get_default_lora_backend",
    "get_state_kernels",
    "get_token_bitmask_fn",
    "get_transfer_engine_cls",
    "initialize_device",
    "kernels",
    "stub_modules",
    "supported_kv_dtypes",
    "supported_kv_kinds",
    "supported_page_sizes",
    "conformance_profiles",
}
# Where the contract answers and the host raises NotImplementedError.
SAFE_DEFAULTS = {"get_torch_profiler_activity", "get_torch_profiler_activity_str"}


def host_names(cls):
    names = {}
    for klass in reversed(cls.__mro__[:-1]):
        names.update({name: value for name, value in vars(klass).items() if not name.startswith("_")})
    return names


def own(cls, name):
    return next(vars(klass)[name] for klass in cls.__mro__ if name in vars(klass))


@pytest.fixture(scope="module")
def host():
    device = pytest.importorskip("sglang.srt.platforms.device_mixin")
    interface = pytest.importorskip("sglang.srt.platforms.interface")
    return {
        "DeviceMixin": (device.DeviceMixin, DeviceMixin),
        "SRTPlatform": (interface.SRTPlatform, SRTPlatform),
        "device": device,
        "interface": interface,
    }


@pytest.mark.parametrize("which", ["DeviceMixin", "SRTPlatform"])
def test_every_public_name_of_the_host_is_ours_and_the_rest_is_listed(host, which):
    theirs, ours = host[which]
    assert set(host_names(theirs)) - public_names(ours) == set()
    assert public_names(SRTPlatform) - set(host_names(host["SRTPlatform"][0])) == OURS


@pytest.mark.parametrize("which", ["DeviceMixin", "SRTPlatform"])
def test_each_takes_the_hosts_calls_and_the_host_takes_ours(host, which):
    theirs, ours = host[which]
    for name, value in host_names(theirs).items():
        mine = own(ours, name)
        assert kind_of(mine) == kind_of(value), name
        if kind_of(value) in ("method", "classmethod"):
            left, right = bound_signature(value, theirs), bound_signature(mine, ours)
            assert broken_calls(left, right) == broken_calls(right, left) == [], name
            defaults = [p.default for p in left.parameters.values()]
            assert [p.default for p in right.parameters.values()] == defaults, name


def test_where_the_host_has_an_answer_ours_is_the_same(host):
    theirs, ours = host["SRTPlatform"][0](), SRTPlatform()
    compared = 0
    for name, value in host_names(host["SRTPlatform"][0]).items():
        if kind_of(value) == "value" and name != "capabilities":
            assert getattr(ours, name) == getattr(theirs, name), name
        if kind_of(value) not in ("method", "classmethod") or name in {"inference_mode", "reindex_device_id"}:
            continue
        arguments = {
            p.name: {"kind": "mha"}.get(p.name, "x")
            for p in bound_signature(value, type(theirs)).parameters.values()
            if p.default is inspect.Parameter.empty
        }
        try:
            expected = getattr(theirs, name)(**arguments)
        except NotImplementedError:
            if name not in SAFE_DEFAULTS:
                with pytest.raises(NotImplementedError, match=name):
                    getattr(ours, name)(**arguments)
            continue
        answer = getattr(ours, name)(**arguments)
        if isinstance(expected, host["device"].CpuArchEnum):
            expected, answer = expected.name, answer.name
        assert answer == expected, name
        compared += 1
    assert compared > 30


def test_the_enums_have_the_same_members_in_the_same_order(host):
    assert [m.name for m in PlatformEnum] == [m.name for m in host["device"].PlatformEnum]
    assert [m.name for m in CpuArchEnum] == [m.name for m in host["device"].CpuArchEnum]
    assert DeviceCapability._fields == host["device"].DeviceCapability._fields


def test_the_hosts_capabilities_are_ours_without_fp8(host):
    theirs = host["interface"].PlatformCapabilities
    ours = [f.name for f in dataclasses.fields(PlatformCapabilities)]
    assert [name for name in ours if name != "fp8"] == list(theirs.__struct_fields__)


def test_the_hosts_enum_identifies_a_platform_of_ours(host):
    class Vendor(SRTPlatform):
        _enum = host["device"].PlatformEnum.OOT

    assert Vendor().is_out_of_tree()


def test_the_hosts_capabilities_struct_is_accepted(host):
    class Vendor(SRTPlatform):
        capabilities = host["interface"].PlatformCapabilities(graph_capture=True)

    assert Vendor().capabilities.graph_capture


def test_every_public_name_of_the_diffusion_runtimes_class_is_ours():
    host = pytest.importorskip("sglang.multimodal_gen.runtime.platforms.interface")
    theirs = host_names(host.Platform)
    assert set(theirs) - public_names(MMPlatform) == set()
    for name, value in theirs.items():
        if kind_of(value) not in ("method", "classmethod"):
            continue
        left, right = (
            bound_signature(value, host.Platform),
            bound_signature(own(MMPlatform, name), MMPlatform),
        )
        if name == "get_device":
            # The host passes the rank by position: local_rank there, device_id here as in the LLM runtime.
            assert list(left.parameters) == ["local_rank"]
        elif name == "get_attn_backend":
            assert list(right.parameters) == ["selected_backend", "head_size", "dtype"]
        else:
            assert broken_calls(left, right) == [], name
    assert {m.name for m in host.PlatformEnum} <= {m.name for m in PlatformEnum}
    assert host.AttentionBackendEnum.TORCH_SDPA.name == "TORCH_SDPA"
