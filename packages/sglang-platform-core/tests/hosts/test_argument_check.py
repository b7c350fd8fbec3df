"""Arguments that the platform does not declare stop the launch, and say what is declared and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.sglang.arguments.check import check_arguments, check_default_lora, refuse

_SETTLED = {
    "kv_cache_dtype": "auto",
    "dtype": "auto",
    "page_size": 1,
    "quantization": None,
    "use_ray": False,
    "enable_dp_attention": False,
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "nnodes": 1,
    "base_gpu_id": 0,
    "gpu_id_step": 1,
}


def _platform(**declared: Any) -> Any:
    platform = SimpleNamespace(
        device_name="strict",
        device_type="cpu",
        supported_kv_dtypes=("bfloat16", "float8_e4m3fnuz"),
        supported_page_sizes=(16, 64),
        supported_quantization=["fp8"],
        capabilities=SimpleNamespace(supports_triton=False),
        get_attention_backends=lambda: {"strict": object},
        is_out_of_tree=lambda: True,
        get_communicator_class=lambda: None,
        get_torch_distributed_backend_str=lambda: "gloo",
    )
    vars(platform).update(declared)
    return platform


def _refusal(platform: Any, backends: tuple[tuple[str, str], ...] = (), **asked: Any) -> str | None:
    try:
        check_arguments(SimpleNamespace(**{**_SETTLED, "page_size": 16, **asked}), platform, backends)
    except LaunchRefused as refusal:
        return str(refusal)
    return None


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        ({"kv_cache_dtype": "fp8_e5m2"}, ["--kv-cache-dtype fp8_e5m2", "supported_kv_dtypes", "fp8_e4m3"]),
        ({"kv_cache_dtype": "nvfp4"}, ["--kv-cache-dtype nvfp4", "bfloat16, float8_e4m3fnuz"]),
        ({"dtype": "half"}, ["--dtype half", "supported_kv_dtypes", "give --dtype bfloat16"]),
        ({"page_size": 7}, ["--page-size 7", "16, 64", "give --page-size 16"]),
        ({"page_size": 128}, ["--page-size 128", "give --page-size 64"]),
        ({"quantization": "awq"}, ["--quantization awq", "supported_quantization", "fp8"]),
    ],
)
def test_what_is_not_declared_is_refused_with_what_is_and_what_to_do(asked: Any, parts: list[str]) -> None:
    said = _refusal(_platform(), **asked)
    assert said is not None
    assert [part for part in [*parts, "'strict'", "why:", "fix:"] if part not in said] == []


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"kv_cache_dtype": "fp8_e4m3"},
        {"kv_cache_dtype": "bf16"},
        {"kv_cache_dtype": "bfloat16", "dtype": "float16"},
        {"dtype": "bfloat16"},
        {"page_size": 64},
        {"page_size": None},
        {"quantization": "fp8"},
        {"tp_size": 64},
    ],
)
def test_what_is_declared_is_served(asked: dict[str, Any]) -> None:
    assert _refusal(_platform(), **asked) is None


def test_a_platform_that_declares_nothing_is_not_asked() -> None:
    silent = _platform(supported_kv_dtypes=(), supported_page_sizes=(), supported_quantization=[])
    asked = {"kv_cache_dtype": "fp8_e5m2", "page_size": 7, "quantization": "awq", "dtype": "half"}
    assert _refusal(silent, **asked) is None


@pytest.mark.parametrize(
    "asked", [{"kv_cache_dtype": "fp4_e2m1"}, {"page_size": 256}, {"quantization": "awq"}, {"dtype": "half"}]
)
def test_what_the_hosts_own_parts_serve_is_no_affair_of_a_device_that_it_knows(asked: dict[str, Any]) -> None:
    """A platform that keeps its CUDA or ROCm identity declares what its own parts do; the host has its own besides."""
    assert _refusal(_platform(), **asked) is not None
    assert _refusal(_platform(is_out_of_tree=lambda: False), **asked) is None


def test_an_attention_backend_of_the_host_is_refused_out_of_tree_only() -> None:
    asked = (("prefill_attention_backend", "flashinfer"),)
    said = _refusal(_platform(), asked)
    assert said is not None
    assert "--prefill-attention-backend flashinfer" in said
    assert "strict, torch_native" in said
    assert _refusal(_platform(is_out_of_tree=lambda: False), asked) is None
    assert _refusal(_platform(get_attention_backends=dict), asked) is None
    assert _refusal(_platform(), (("attention_backend", "torch_native"),)) is None
    triton = (("attention_backend", "triton"),)
    assert _refusal(_platform(), triton) is not None
    assert _refusal(_platform(capabilities=SimpleNamespace(supports_triton=True)), triton) is None


def test_the_shape_of_a_refusal_serves_other_features() -> None:
    with pytest.raises(LaunchRefused) as caught:
        refuse("enable_lora", True, _platform(), "declares no LoRA kernels", "leave out --enable-lora")
    assert caught.value.what == "--enable-lora True is not served on the platform 'strict'"
    assert caught.value.why == "the platform 'strict' declares no LoRA kernels"
    assert caught.value.fix == "leave out --enable-lora"


class _Lora(SRTPlatform):
    device_name = "adapters"
    _default: str | None = "torch"

    def get_default_lora_backend(self) -> str | None:
        return self._default


class _Registers(_Lora):
    def init_backend(self) -> None:
        """It may register a LoRA backend here."""


@pytest.mark.host
@pytest.mark.parametrize("name", ["torch", "torch-native", "trition"])
def test_a_default_lora_backend_that_the_host_does_not_have_is_refused(name: str) -> None:
    platform = _Lora()
    platform._default = name
    with pytest.raises(LaunchRefused) as caught:
        check_default_lora(SimpleNamespace(lora_backend=name), platform)
    assert caught.value.what == f"get_default_lora_backend() of the platform 'adapters' answers {name!r}"
    assert "_Lora" in caught.value.fix
    assert ("return 'triton'" if name == "trition" else "return 'torch_native'") in caught.value.fix


@pytest.mark.host
@pytest.mark.parametrize(
    ("cls", "default", "used"),
    [
        (_Lora, "torch_native", "torch_native"),
        (_Lora, None, "csgmv"),
        (_Lora, None, None),
        (_Lora, "torch", "triton"),
        (_Registers, "torch", "torch"),
    ],
)
def test_lora_backends_of_the_host_of_the_operator_and_of_init_backend_are_not_refused(
    cls: type, default: str | None, used: str | None
) -> None:
    platform = cls()
    platform._default = default
    check_default_lora(SimpleNamespace(lora_backend=used), platform)


@pytest.mark.long
@pytest.mark.host
def test_a_launcher_on_the_example_is_stopped(monkeypatch: Any, run_program: Any, tmp_path: Path) -> None:
    """The host's own settling of arguments, on a model's configuration without weights."""
    monkeypatch.setenv("SGLANG_PLATFORM", "example_oot")
    monkeypatch.setenv("SGLANG_EXAMPLE_OOT_DEVICES", "2")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": 64,
        "max_position_embeddings": 256,
        "dtype": "float32",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    tried: list[tuple[dict[str, Any], str | None]] = [
        ({}, None),
        ({"kv_cache_dtype": "fp8_e4m3", "page_size": 16, "tp_size": 2}, None),
        ({"attention_backend": "torch_native"}, None),
        ({"kv_cache_dtype": "fp8_e5m2"}, "--kv-cache-dtype fp8_e5m2"),
        ({"page_size": 7}, "--page-size 7"),
        ({"quantization": "awq"}, "--quantization awq"),
        ({"attention_backend": "flashinfer"}, "--attention-backend flashinfer"),
        ({"tp_size": 3}, "has 2 device(s)"),
    ]
    sets = [{"model_path": str(tmp_path), **arguments} for arguments, _ in tried]
    done = run_program("settle_arguments.py", json.dumps(sets), timeout=300)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(told) == len(tried)
    for (arguments, expected), answer in zip(tried, told, strict=True):
        if expected is None:
            assert answer == {"settled": True}, arguments
        else:
            assert expected in answer.get("refused", ""), (arguments, answer)
            assert "fix:" in answer["refused"]
