"""LoRA adapters for the suite's checkpoints, in the format of PEFT, and the checkpoint with one merged in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.kept_folder import kept_folder

__all__ = ["make_adapter", "merge_adapter"]

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def make_adapter(folder: Path, checkpoint: Path, *, rank: int, alpha: int, seed: int) -> Path:
    """Write an adapter of random weights for every linear layer of `checkpoint`; one that is there is kept."""
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": list(TARGETS),
        "bias": "none",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": checkpoint.name,
        "lora_dropout": 0.0,
        "use_dora": False,
        "use_rslora": False,
        "modules_to_save": None,
        "revision": f"seed-{seed}",
    }
    return kept_folder(folder, config, lambda new: _write(new, checkpoint, config, seed))


def _write(folder: Path, checkpoint: Path, config: dict[str, Any], seed: int) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, weight in load_file(checkpoint / "model.safetensors").items():
        module = name.removesuffix(".weight")
        if module.rpartition(".")[2] not in TARGETS:
            continue
        out_features, in_features = weight.shape
        for part, shape in (("lora_A", (config["r"], in_features)), ("lora_B", (out_features, config["r"]))):
            key = f"base_model.model.{module}.{part}.weight"
            weights[key] = torch.randn(shape, generator=generator) * 0.05
    save_file(weights, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(config))


def merge_adapter(folder: Path, checkpoint: Path, adapter: Path) -> Path:
    """Write `checkpoint` with `W + alpha / r * B A` in place of each adapted W (LoRA, Hu et al. 2021).

    One that is there already is kept."""
    wanted = [(one / "complete.json").read_text() for one in (checkpoint, adapter)]
    return kept_folder(folder, wanted, lambda new: _write_merged(new, checkpoint, adapter))


def _write_merged(folder: Path, checkpoint: Path, adapter: Path) -> None:
    from safetensors.torch import load_file, save_file

    config = json.loads((adapter / "adapter_config.json").read_text())
    weights, parts = (
        load_file(checkpoint / "model.safetensors"),
        load_file(adapter / "adapter_model.safetensors"),
    )
    for key, down in parts.items():
        if ".lora_A." not in key:
            continue
        name = key.removeprefix("base_model.model.").replace(".lora_A.", ".")
        weights[name] += config["lora_alpha"] / config["r"] * parts[key.replace("lora_A", "lora_B")] @ down
    shutil.copytree(
        checkpoint, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("reference-*", "complete.json")
    )
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
