"""A small draft model of EAGLE's form for a checkpoint: one decoder layer that continues the target's hidden states."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["make_eagle_draft"]


def make_eagle_draft(folder: Path, target: Path, *, seed: int = 0) -> Path:
    """Write into `folder` a random EAGLE draft for the Llama checkpoint `target`, and return it.

    Its embedding and head are the target's, as SGLang shares them; the layer is new. A draft need not be good: what is
    served must be the target's tokens whatever it proposes.
    """
    done = folder / "complete.json"
    wanted = {"target": str(target), "seed": seed}
    if done.exists() and json.loads(done.read_text()) == wanted:
        return folder
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
    draft["fc.weight"] = torch.randn(hidden, 2 * hidden, generator=generator) * 0.08
    draft["fc.bias"] = torch.zeros(hidden)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(draft, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (target / name).exists():
            (folder / name).write_bytes((target / name).read_bytes())
    done.write_text(json.dumps(wanted))
    return folder
