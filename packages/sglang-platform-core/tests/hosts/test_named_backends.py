"""Models of which SGLang asserts the name of their attention backend, on a platform whose backend computes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from sglang_platform.core.sglang.ops.triton_functions import _cap

CONFIGURATION = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "hidden_size": 64,
    "head_dim": 32,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 64,
    "max_position_embeddings": 4096,
    "torch_dtype": "float32",
}


@pytest.mark.long
@pytest.mark.timeout(400)
def test_gpt_oss_is_served_by_a_backend_with_sinks_and_refused_without(
    tmp_path: Path, run_program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "example_oot")
    (tmp_path / "config.json").write_text(json.dumps(CONFIGURATION))
    done = run_program("settle_gpt_oss.py", str(tmp_path), timeout=300)
    served, refused = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert served == {"attention": "example_oot"}
    assert "GptOssForCausalLM requires one of" in refused["refused"]
    assert "Prefill: example_oot" in refused["refused"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_capped_in_place_rows_strided_as_they_like(dtype: torch.dtype) -> None:
    wide = torch.randn(5, 80, generator=torch.Generator().manual_seed(0)).to(dtype) * 20
    logits, rest = wide[:, :64], wide[:, 64:].clone()
    wanted = 30.0 * torch.tanh(logits.double() / 30.0)
    assert _cap(logits, 30.0) is logits
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 0.01, "atol": 0.01}
    torch.testing.assert_close(wide[:, :64].double(), wanted, **tolerance)
    assert torch.equal(wide[:, 64:], rest)
