"""LoRA adapters for the suite's checkpoints, in the format of PEFT, and the checkpoint with one merged in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

__all__ = ["make_adapter", "merge_adapter"]

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def make_adapter(folder: Path, checkpoint: Path, *, rank: int, alpha: int, seed: int) -> Path:
    """Write an adapter of random weights for every linear layer of `checkpoint`; one that is there is kept."""
    done = folder / "adapter_config.json"
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
    if done.exists() and json.loads(done.read_text()) == config:
        return folder
    import torch
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, weight in load_file(checkpoint / "model.safetensors").items():
        module = name.removesuffix(".weight")
        if module.rpartition(".")[2] not in TARGETS:
            continue
        out_features, in_features = weight.shape
        for part, shape in (("lora_A", (rank, in_features)), ("lora_B", (out_features, rank))):
            key = f"base_model.model.{module}.{part}.weight"
            weights[key] = torch.randn(shape, generator=generator) * 0.05
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "adapter_model.safetensors")
    done.write_text(json.dumps(config))
    return folder


def merge_adapter(folder: Path, checkpoint: Path, adapter: Path) -> Path:
    """Write `checkpoint` with `W + alpha / r * B A` in place of each adapted W (LoRA, Hu et al. 2021).

    One that is there already is kept."""
    done = folder / "merged.json"
    wanted = [(checkpoint / "complete.json").read_text(), (adapter / "adapter_config.json").read_text()]
    if done.exists() and json.loads(done.read_text()) == wanted:
        return folder
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
    done.write_text(json.dumps(wanted))
    return folder
