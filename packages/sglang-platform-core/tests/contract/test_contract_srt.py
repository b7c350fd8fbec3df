import pytest
import torch

from sglang_platform.core.contract import PlatformCapabilities, SRTPlatform
from sglang_platform.core.contract.pool_kinds import KINDS

FACTORIES = [
    ("get_graph_runner_cls", {}),
    ("get_full_graph_backend_cls", {}),
    ("get_piecewise_backend_cls", {}),
    ("get_paged_allocator_cls", {}),
    ("get_kv_pool_cls", {"kind": "mha"}),
    ("get_kv_pool_cls", {"kind": "nsa"}),
    ("get_quantization_config", {"quantization": "fp8"}),
    ("get_speculative_worker_cls", {"algorithm": "EAGLE"}),
    ("get_speculative_graph_runner_cls", {"algorithm": "EAGLE", "phase": "draft_decode"}),
    ("get_speculative_cache_locs_fn", {}),
]


class Platform(SRTPlatform):
    pass


@pytest.mark.parametrize(
    ("device_type", "backend"), [("cpu", "inductor"), ("cuda", "inductor"), ("a_new_device", "eager")]
)
def test_what_is_compiled_runs_on_a_device_that_inductor_does_not_know(
    device_type: str, backend: str
) -> None:
    platform = Platform()
    platform.device_type = device_type
    assert platform.get_compile_backend() == backend


@pytest.mark.parametrize(("name", "arguments"), FACTORIES)
def test_a_factory_has_no_opinion_by_default(name, arguments):
    assert getattr(Platform(), name)(**arguments) is None


def test_an_unknown_kind_of_pool_is_refused():
    with pytest.raises(ValueError, match="'gqa' is not a kind of KV pool; the kinds are " + ", ".join(KINDS)):
        Platform().get_kv_pool_cls(kind="gqa")


def test_the_kind_is_by_keyword_only():
    with pytest.raises(TypeError):
        Platform().get_kv_pool_cls("mha")


def test_defaults_are_conservative():
    platform = Platform()
    assert platform.capabilities == PlatformCapabilities()
    assert platform.supported_quantization == []
    assert platform.get_compile_backend() == platform.get_compile_backend("npugraph_ex")
    assert platform.get_dispatch_key_name() == "native"
    assert dict(platform.get_attention_backends()) == {}
    assert dict(platform.stub_modules()) == {}
    assert platform.get_group_coordinator_device(3) == torch.device("cpu")
    assert platform.supports_speculative_algorithm("EAGLE") is False
    assert platform.supports_speculative_draft_attention_backend("EAGLE", "triton") is False
    assert platform.support_mamba_cache_extra_buffer() is False


def test_nothing_is_declared_by_default():
    declarations = [
        "kernels",
        "attention_features",
        "supported_kv_dtypes",
        "supported_kv_kinds",
        "supported_page_sizes",
    ]
    assert [list(getattr(Platform(), name)) for name in declarations] == [[]] * 5
    assert Platform().conformance_profiles == ("core",)


def test_lifecycle_methods_leave_their_argument_alone():
    arguments = {"attention_backend": None}
    platform = Platform()
    platform.apply_server_args_defaults(arguments)
    platform.finalize_server_args(arguments)
    platform.init_backend()
    platform.post_load_model(torch.nn.Identity())
    assert arguments == {"attention_backend": None}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("get_default_attention_backend", ()), ("get_default_speculative_draft_attention_backend", ("EAGLE",))],
)
def test_a_name_that_only_the_platform_knows_must_be_given(name, arguments):
    with pytest.raises(
        NotImplementedError, match=rf"Platform does not implement {name}\(\): it must return the name"
    ):
        getattr(Platform(), name)(*arguments)
