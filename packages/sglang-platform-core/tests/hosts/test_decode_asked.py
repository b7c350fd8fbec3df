"""The decode attention of a launch, as described to a platform; None where only SGLang's may serve."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.core.host import DecodeAsked
from sglang_platform.core.sglang.arguments import decode_attention, server_args
from sglang_platform.core.sglang.versions import facts_for

PLAIN = DecodeAsked("fa3", latent=False, eight_bit=False, group=4, dim=128, page_size=1)


def model(name: str = "LlamaForCausalLM", **changes: Any) -> SimpleNamespace:
    heads, kv_heads = changes.pop("heads", 32), changes.pop("kv_heads", 8)
    return SimpleNamespace(
        **{
            "hf_config": SimpleNamespace(architectures=[name]),
            "is_hybrid_swa": False,
            "sliding_window_size": None,
            "dtype": torch.bfloat16,
            "attention_arch": SimpleNamespace(name="MHA"),
            "head_dim": 128,
            "get_num_attention_heads": lambda ranks: heads // ranks,
            "get_num_kv_heads": lambda ranks: max(1, kv_heads // ranks),
            **changes,
        }
    )


def asked(monkeypatch: pytest.MonkeyPatch, served: Any = None, raw: Any = None, **changes: Any) -> Any:
    """What is described of a launch with these arguments."""
    monkeypatch.setattr(decode_attention, "load", lambda place: lambda arguments: served or model())
    monkeypatch.setattr(server_args, "facts", lambda: facts_for("0.5.23"))
    arguments = dict.fromkeys((*server_args.ATTENTION_FIELDS, *decode_attention._OTHER_DECODE))
    arguments.update(attention_backend="fa3", kv_cache_dtype="auto", page_size=1, tp_size=1)
    arguments.update(dcp_size=1, attn_cp_size=1, _raw_input=raw or {})
    return decode_attention.decode_asked(SimpleNamespace(**{**arguments, **changes}))


def test_a_plain_decode_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch) == PLAIN
    assert asked(monkeypatch, tp_size=4) == PLAIN
    assert asked(monkeypatch, tp_size=16) == PLAIN._replace(group=2), "KV heads are replicated"
    assert asked(monkeypatch, kv_cache_dtype="bf16", page_size=64) == PLAIN._replace(page_size=64)
    assert asked(monkeypatch, kv_cache_dtype="fp8_e4m3") == PLAIN._replace(eight_bit=True)
    assert asked(monkeypatch, attention_backend="flashinfer") == PLAIN._replace(beside="flashinfer")
    latent = model(
        "DeepseekV3ForCausalLM",
        heads=128,
        attention_arch=SimpleNamespace(name="MLA"),
        kv_lora_rank=512,
        qk_rope_head_dim=64,
    )
    assert asked(monkeypatch, latent, tp_size=8) == PLAIN._replace(latent=True, group=16, dim=576)


@pytest.mark.parametrize(
    "field", ["attention_backend", "prefill_attention_backend", "decode_attention_backend"]
)
def test_a_backend_that_the_operator_names_wins(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    assert asked(monkeypatch, raw={field: "triton"}, **{field: "triton"}) is None


@pytest.mark.parametrize("argument", decode_attention._OTHER_DECODE)
def test_a_decode_of_another_kind_is_left_to_sglang(monkeypatch: pytest.MonkeyPatch, argument: str) -> None:
    assert asked(monkeypatch, **{argument: True}) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_backend": None},  # a record that is not resolved
        {"kv_cache_dtype": "fp8_e5m2"},
        {"kv_cache_dtype": "fp4_e2m1"},
        {"dcp_size": 2},
        {"attn_cp_size": 2},
        {"decode_attention_backend": "trtllm_mha"},  # chosen by SGLang for a model
        {"served": model("LlamaForCausalLM", sliding_window_size=4096)},
        {"served": model("LlamaForCausalLM", is_hybrid_swa=True)},
        {"served": model("LlamaForCausalLM", dtype=torch.float16)},
        {"served": model("GptOssForCausalLM")},
        {"served": model("Gemma3ForCausalLM")},
        {"served": model("Qwen3NextForCausalLM")},
        {"served": model("DeepseekV32ForCausalLM")},
        {"served": model("NemotronHForCausalLM")},
        {"served": model("MllamaForConditionalGeneration")},
    ],
)
def test_other_caches_and_models_are_left_to_sglang(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    assert asked(monkeypatch, **changes) is None


@pytest.mark.parametrize("variable", decode_attention._LAYOUTS)
def test_other_layouts_of_the_cache_are_left_to_sglang(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert asked(monkeypatch) is None


def test_releases_without_the_models_config_are_left_to_sglang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_attention, "facts", lambda: facts_for("0.5.18"))
    assert asked(monkeypatch) is None
