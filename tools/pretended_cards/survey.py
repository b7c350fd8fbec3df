"""Prints as JSON what SGLang does on a pretended card: `python -m tools.pretended_cards.survey ARCHITECTURE PLUGIN`.

ARCHITECTURE names the card. PLUGIN is `plugin` with the package for the card, `alone` without. The compiled libraries
that the card's machine has are named after it; `tables=FOLDER` has the package read its tables of decode there.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import tempfile
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from tools.pretended_cards.card import CARDS, install, pretend

__all__ = ["LAUNCHES", "MODULES", "PARTS", "survey"]

MODULES = (
    "sglang.srt.layers.activation",
    "sglang.srt.layers.layernorm",
    "sglang.srt.layers.sampler",
    "sglang.srt.layers.quantization",
    "sglang.srt.layers.quantization.w8a8_int8",
    "sglang.srt.layers.moe.topk",
    "sglang.srt.layers.attention.triton_backend",
    "sglang.srt.lora.lora_manager",
    "sglang.srt.mem_cache.memory_pool_host",
    "sglang.srt.models.llama",
    "sglang.srt.models.qwen3_moe",
    "sglang.srt.models.gemma3_causal",
    "sglang.srt.models.gpt_oss",
    "sglang.srt.models.deepseek_v2",
    "sglang.srt.constrained.xgrammar_backend",
    "sglang.srt.model_executor.model_runner",
    "sglang.srt.managers.scheduler",
    "sglang.srt.entrypoints.engine",
)
"""What a serving process imports, and each served kind of model."""

PARTS = ("attention", "kv_pool", "allocator", "ops", "graph_runner", "communicator")
LAUNCHES: dict[str, dict[str, Any]] = {
    "": {},
    "--kv-cache-dtype fp8_e4m3": {"kv_cache_dtype": "fp8_e4m3"},
    "--quantization fp8": {"quantization": "fp8"},
    "--quantization w8a8_int8": {"quantization": "w8a8_int8"},
    "--quantization gguf": {"quantization": "gguf"},
    "--quantization w4afp8": {"quantization": "w4afp8"},
    "--attention-backend triton": {"attention_backend": "triton"},
    "--attention-backend fa3": {"attention_backend": "fa3"},
    "--attention-backend flashinfer": {"attention_backend": "flashinfer"},
    "--attention-backend aiter": {"attention_backend": "aiter"},
    "--decode-attention-backend triton": {"decode_attention_backend": "triton"},
    "--decode-attention-backend flashmla": {"decode_attention_backend": "flashmla", "page_size": 64},
    "--sampling-backend pytorch": {"sampling_backend": "pytorch"},
    "--sampling-backend flashinfer": {"sampling_backend": "flashinfer"},
    "--moe-runner-backend flashinfer_cutlass": {"moe_runner_backend": "flashinfer_cutlass"},
    "--moe-runner-backend cutlass": {"moe_runner_backend": "cutlass"},
    "--page-size 64": {"page_size": 64},
    "--enable-deterministic-inference": {"enable_deterministic_inference": True},
    "--enable-hierarchical-cache": {"enable_hierarchical_cache": True},
}
"""By what the operator writes, the server arguments."""
_SETTLED = ("attention_backend", "sampling_backend", "page_size", "decode_attention_backend")
_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 128,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5,
}


class _Log(logging.Handler):
    """Keeps what our packages log at INFO or above."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def survey() -> dict[str, Any]:
    """The imports, the launches, who serves each part, and what our packages log."""
    log, logger = _Log(), logging.getLogger("sglang_platform")
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    from sglang.srt.platforms import current_platform

    imports = {name: _imported(name) for name in MODULES}
    from sglang.srt.plugins import load_plugins

    load_plugins()
    launches = {name: _launched(arguments) for name, arguments in LAUNCHES.items()}
    rules = getattr(current_platform, "_parts", None)
    parts = {part: _server(rules, part) for part in PARTS} if rules is not None else {}
    return {"imports": imports, "launches": launches, "parts": parts, "log": log.lines}


def _imported(name: str) -> str:
    """Why the module cannot be imported; empty if it can."""
    try:
        importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - each failure is an answer
        return f"{type(error).__name__}: {error}"
    return ""


def _server(rules: Any, part: str) -> str:
    choice = rules.choose(part, "mha" if part == "kv_pool" else "")
    return "ours" if choice.own else "SGLang's"


def _launched(arguments: dict[str, Any]) -> dict[str, Any]:
    from sglang.srt.server_args import ServerArgs

    from sglang_platform.core.errors import LaunchRefused
    from sglang_platform.core.sglang.served_model import resolved

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(_MODEL))
        try:
            record = ServerArgs(model_path=folder, skip_tokenizer_init=True, **arguments)
            settle = getattr(record, "resolve_once", None)
            if settle is not None:
                settle()
            view = resolved(record)
        except LaunchRefused as error:
            return {"refused": str(error)}
        except Exception as error:  # noqa: BLE001 - each failure is an answer
            return {"failed": f"{type(error).__name__}: {error}"}
    return {name: getattr(view, name) for name in _SETTLED}


if __name__ == "__main__":
    card, with_plugin, *installed = CARDS[sys.argv[1]], sys.argv[2] == "plugin", *sys.argv[3:]
    tables = [name for name in installed if name.startswith("tables=")]
    install([name for name in installed if name not in tables])
    pretend(card)
    name = {"cuda": "Cuda", "rocm": "Rocm"}[card.platform]
    if with_plugin:
        place = f"sglang_platform.{card.platform}.platform:{name}SRTPlatform"
        os.environ["SGLANG_PLATFORM_PLUGIN"] = f"{card.platform}={place}"
        if tables:
            resolve_name(place)._decode_tables = Path(tables[0].partition("=")[2])
    print(json.dumps(survey()))
