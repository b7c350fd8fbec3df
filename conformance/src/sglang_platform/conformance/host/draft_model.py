"""Small draft models of EAGLE's form for a checkpoint: one decoder layer that continues the target's hidden states."""

from __future__ import annotations

import json
from pathlib import Path

from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.kept_folder import kept_folder

__all__ = ["make_eagle_draft", "make_repeatable_target"]


def make_repeatable_target(folder: Path, *, seed: int = 0) -> Path:
    """Write into `folder` a Llama that an EAGLE draft can be the same as, and return it.

    It has one layer, and every row of its embedding has a root mean square of 1, since the layer of a draft lacks the
    first norm.
    """
    return kept_folder(folder, {"repeatable": seed}, lambda new: _write_repeatable(new, seed))


def _write_repeatable(folder: Path, seed: int) -> None:
    from safetensors.torch import load_file, save_file

    make_checkpoint(folder, "llama", seed=seed, num_hidden_layers=1)
    file = folder / "model.safetensors"
    weights = load_file(file)
    rows = weights["model.embed_tokens.weight"]
    weights["model.embed_tokens.weight"] = rows / rows.square().mean(1, keepdim=True).sqrt()
    save_file(weights, file, metadata={"format": "pt"})


def make_eagle_draft(folder: Path, target: Path, *, seed: int = 0, repeats: bool = False) -> Path:
    """Write into `folder` an EAGLE draft for the Llama checkpoint `target`, and return it.

    Its embedding and head are the target's, as SGLang shares them. What enters its layer, which is the target's first,
    is drawn at random: what is served must be the target's tokens whatever a draft proposes. With `repeats`, for a
    target of `make_repeatable_target`, it is the embedding alone: the draft proposes what the target would, had the
    sequence begun one token later.
    """
    wanted = {"target": (target / "complete.json").read_text(), "seed": seed, "repeats": repeats}
    return kept_folder(folder, wanted, lambda new: _write_draft(new, target, seed, repeats))


def _write_draft(folder: Path, target: Path, seed: int, repeats: bool) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    config = json.loads((target / "config.json").read_text())
    config |= {"architectures": ["LlamaForCausalLMEagle"], "num_hidden_layers": 1}
    weights = load_file(target / "model.safetensors")
    generator = torch.Generator().manual_seed(seed)
    hidden = config["hidden_size"]
    layer = "model.layers.0."
    draft = {
        name.removeprefix("model."): weight.clone()
        for name, weight in weights.items()
        if name.startswith(layer) and "input_layernorm" not in name
    }
    draft["embed_tokens.weight"] = weights["model.embed_tokens.weight"]
    draft["fc.weight"] = (
        torch.eye(hidden, 2 * hidden)
        if repeats
        else torch.randn(hidden, 2 * hidden, generator=generator) * 0.08
    )
    draft["fc.bias"] = torch.zeros(hidden)
    save_file(draft, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (target / name).exists():
            (folder / name).write_bytes((target / name).read_bytes())
