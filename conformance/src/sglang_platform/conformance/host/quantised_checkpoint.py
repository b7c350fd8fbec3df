"""The suite's llama checkpoint with quantised linear layers, in the formats of public checkpoints, and what they stand
for: the same checkpoint with the weights as the quantised numbers say, which transformers answers for.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.kept_folder import kept_folder

__all__ = ["FORMATS", "make_quantised", "make_unknown"]

_GROUP = 64
_BLOCK = 64
_AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)
_LARGEST_FP8 = 448.0

Stored = tuple[Any, dict[str, Any]]
"""The weight that the numbers stand for, and the tensors that hold them, by their names below the module."""


def _fp8_per_tensor(weight: Any) -> Stored:
    scale = weight.abs().amax() / _LARGEST_FP8
    return _fp8(weight, scale, "weight_scale", scale)


def _fp8_in_blocks(weight: Any) -> Stored:
    import torch

    rows, columns = (-(-size // _BLOCK) for size in weight.shape)
    scale, whole = torch.empty(rows, columns), torch.empty_like(weight)
    for row in range(rows):
        for column in range(columns):
            block = slice(row * _BLOCK, (row + 1) * _BLOCK), slice(column * _BLOCK, (column + 1) * _BLOCK)
            scale[row, column] = whole[block] = weight[block].abs().amax() / _LARGEST_FP8
    return _fp8(weight, whole, "weight_scale_inv", scale)


def _fp8(weight: Any, scale: Any, name: str, stored: Any) -> Stored:
    import torch

    short = (weight / scale).to(torch.float8_e4m3fn)
    return short.float() * scale, {"weight": short, name: stored}


def _int8_per_channel(weight: Any) -> Stored:
    import torch

    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    short = (weight / scale).round().to(torch.int8)
    return short.float() * scale, {"weight": short, "weight_scale": scale}


def _awq(weight: Any) -> Stored:
    """Transposed, eight columns to a word in AWQ's order."""
    values, zeros, scale, stands_for = _in_groups(weight)
    tensors = {
        "qweight": _pack(values.T, _AWQ_PLACES),
        "qzeros": _pack(zeros.T, _AWQ_PLACES),
        "scales": scale.T.contiguous(),
    }
    return stands_for, tensors


def _gptq(weight: Any) -> Stored:
    """Transposed, eight rows to a word; zero points as one less than they are."""
    import torch

    values, zeros, scale, stands_for = _in_groups(weight)
    tensors = {
        "qweight": _pack(values).T.contiguous(),
        "qzeros": _pack((zeros.T - 1) & 15),
        "scales": scale.T.contiguous(),
        "g_idx": torch.arange(weight.shape[1], dtype=torch.int32) // _GROUP,
    }
    return stands_for, tensors


def _in_groups(weight: Any) -> tuple[Any, Any, Any, Any]:
    """Values of 4 bits [N, K], zero points and scales [N, K / group], and the weight they stand for."""
    groups = weight.unflatten(1, (-1, _GROUP))
    low, high = groups.amin(-1), groups.amax(-1)
    scale = (high - low) / 15
    zeros = (-low / scale).round().clamp(0, 15)
    values = (groups / scale[..., None] + zeros[..., None]).round().clamp(0, 15)
    stands_for = ((values - zeros[..., None]) * scale[..., None]).flatten(1)
    return values.flatten(1).int(), zeros.int(), scale, stands_for


def _pack(values: Any, places: tuple[int, ...] = tuple(range(8))) -> Any:
    """Eight values of a row to a word: value i of each eight in bits `4 * places[i]`."""
    import torch

    words = torch.zeros(values.shape[0], values.shape[1] // 8, dtype=torch.int64)
    for index, place in enumerate(places):
        words |= values[:, index::8].long() << (4 * place)
    return words.to(torch.int32)


_INT8_CONFIG = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 8,
                "type": "int",
                "symmetric": True,
                "strategy": "channel",
                "dynamic": False,
            },
            "input_activations": {
                "num_bits": 8,
                "type": "int",
                "symmetric": True,
                "strategy": "token",
                "dynamic": True,
            },
        }
    },
}

FORMATS: Mapping[str, tuple[dict[str, Any], Callable[[Any], Stored]]] = {
    "fp8": ({"quant_method": "fp8", "activation_scheme": "dynamic"}, _fp8_per_tensor),
    "fp8-block": (
        {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [_BLOCK, _BLOCK]},
        _fp8_in_blocks,
    ),
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": _GROUP, "zero_point": True, "version": "gemm"},
        _awq,
    ),
    "gptq": (
        {"quant_method": "gptq", "bits": 4, "group_size": _GROUP, "desc_act": False, "sym": False},
        _gptq,
    ),
    "int8": (_INT8_CONFIG, _int8_per_channel),
}


def make_quantised(models: Path, name: str, architecture: str = "llama") -> tuple[Path, Path]:
    """Write both checkpoints of a format below `models`: the quantised one, and the one that it stands for; those that
    are there are kept."""
    checkpoint = make_checkpoint(models / architecture, architecture)
    described, quantise = FORMATS[name]
    wanted = [(checkpoint / "complete.json").read_text(), described]
    quantised, plain = (models / f"{architecture}-{name}{end}" for end in ("", "-dequantised"))
    kept_folder(quantised, wanted, lambda new: _write(new, checkpoint, quantise, described))
    kept_folder(plain, wanted, lambda new: _write(new, checkpoint, quantise, None))
    return quantised, plain


def _write(
    folder: Path, checkpoint: Path, quantise: Callable[[Any], Stored], described: Mapping[str, Any] | None
) -> None:
    """The quantised checkpoint as `described`, or with None the one that it stands for."""
    from safetensors.torch import load_file, save_file

    tensors: dict[str, Any] = {}
    for key, weight in load_file(checkpoint / "model.safetensors").items():
        module = key.removesuffix(".weight")
        if not module.endswith("_proj") or weight.dim() != 2:
            tensors[key] = weight
            continue
        whole, parts = quantise(weight.float())
        tensors |= (
            {key: whole} if described is None else {f"{module}.{part}": one for part, one in parts.items()}
        )
    _copy(checkpoint, folder, described, "*.safetensors*")
    contiguous = {key: tensor.contiguous() for key, tensor in tensors.items()}
    save_file(contiguous, folder / "model.safetensors", metadata={"format": "pt"})


def make_unknown(models: Path) -> Path:
    """Write a llama checkpoint that says it is in a format of which nothing here has a reader."""
    checkpoint = make_checkpoint(models / "llama", "llama")
    described = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    wanted = [(checkpoint / "complete.json").read_text(), described]
    return kept_folder(models / "llama-bitsandbytes", wanted, lambda new: _copy(checkpoint, new, described))


def _copy(checkpoint: Path, folder: Path, described: Mapping[str, Any] | None, *without: str) -> None:
    ignored = shutil.ignore_patterns("reference-*", "complete.json", *without)
    shutil.copytree(checkpoint, folder, dirs_exist_ok=True, ignore=ignored)
    if described is not None:
        config = json.loads((folder / "config.json").read_text())
        text = json.dumps({**config, "quantization_config": described}, indent=2)
        (folder / "config.json").write_text(text)
