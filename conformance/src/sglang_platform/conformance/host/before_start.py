"""What would end an engine's start, or hang it, told in a line before minutes are spent on it."""

from __future__ import annotations

import errno
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.installed.files import Unread, file_bytes

__all__ = ["refuse_damaged_checkpoint", "refuse_odd_prompts", "refuse_unreadable_metadata"]

_OF_TRANSFORMERS = (
    "config.json", "generation_config.json", "model.safetensors.index.json", "special_tokens_map.json",
    "tokenizer_config.json", "tokenizer.json",
)  # fmt: skip
_LARGEST = 256 << 20
"""Bytes of the largest of these that is read: ten times the largest tokenizer that is published."""
_SIZES = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "vocab_size",
)  # fmt: skip
"""Numbers of a configuration of which a model makes tensors and layers."""


def refuse_unreadable_metadata() -> None:
    """Raises ConfigurationError where the entry points of any distribution cannot be read: torch reads all of them
    when it is imported, and fails, or waits for ever at a pipe."""
    for entry in sys.path:
        for info in sorted((*Path(entry).glob("*.dist-info"), *Path(entry).glob("*.egg-info"))):
            file = info / "entry_points.txt"
            try:
                file.stat()
                file_bytes(str(file)).decode("utf-8")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                raise ConfigurationError(
                    f"{file} cannot be read",
                    why=f"{why}; torch and SGLang read the entry points of every distribution when they are imported",
                    fix=f"install {info.name.partition('-')[0]} again, or remove its folder {info}",
                ) from None

    for entry in sys.path:
        for info in sorted(Path(entry).glob("sglang-*.dist-info")):
            _refuse_without_version(info / "METADATA")


def _refuse_without_version(file: Path) -> None:
    """SGLang's own: the adapter asks which release it is, and other libraries do."""
    try:
        stated = b"\nVersion: " in file_bytes(str(file)) and file_bytes(str(file)).decode("utf-8")
        why = None if stated else "it states no Version"
    except ValueError as error:
        why = str(error)
    if why is not None:
        raise ConfigurationError(f"{file} cannot be read", why=why, fix="install sglang again")


def refuse_odd_prompts(prompts: Sequence[str]) -> None:
    """Raises ConfigurationError for a prompt that no tokenizer takes."""
    for prompt in prompts:
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"the prompt {prompt[:60]!r} is no text", why=str(error), fix="give --prompt in UTF-8"
            ) from None
        if not prompt:
            raise ConfigurationError("a prompt is empty", fix="give --prompt some text")


def refuse_damaged_checkpoint(folder: Path, fix: str) -> None:
    """Raises ConfigurationError, with `fix`, for a folder of which no model can be made: files that are no JSON, a
    tokenizer that is none, weights that are cut short, sizes past all weights."""
    found = {name: _json(folder / name, fix) for name in _OF_TRANSFORMERS if _is_there(folder / name)}
    if "config.json" not in found:
        raise _damaged(folder, "it has no config.json: it is no Hugging Face checkpoint folder", fix)
    config = found["config.json"]
    if not isinstance(config.get("model_type"), str) or not config.get("architectures"):
        raise _damaged(folder / "config.json", "it names no model_type and architectures", fix)
    if "tokenizer.json" in found:
        _refuse_tokenizer(folder / "tokenizer.json", fix)
    numbers = _numbers_of_weights(folder, found.get("model.safetensors.index.json", {}), fix)
    text = config.get("text_config")
    for name, value in {**config, **(text if isinstance(text, dict) else {})}.items():
        if name in _SIZES and value is not None:
            if type(value) is not int or value < 1:
                raise _damaged(folder / "config.json", f"its {name} is {str(value)[:40]}", fix)
            if numbers is not None and value > numbers:
                why = f"its {name} is {str(value)[:40]}, and all weights have {numbers:,} numbers"
                raise _damaged(folder / "config.json", why, fix)


def _damaged(path: Path, why: str, fix: str) -> ConfigurationError:
    return ConfigurationError(f"{path} is damaged, or no part of a checkpoint", why=why, fix=fix)


def _is_there(path: Path) -> bool:
    """Also where it is a link that leads nowhere or to itself: that is damage."""
    return path.is_symlink() or path.exists()


def _json(path: Path, fix: str) -> dict[str, Any]:
    try:
        found = json.loads(file_bytes(str(path), _LARGEST).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error), fix) from None
    if not isinstance(found, dict):
        raise _damaged(path, "it is no JSON object", fix)
    return found


def _refuse_tokenizer(path: Path, fix: str) -> None:
    # Imports inside functions: SGLang's requirements, which the suite does without elsewhere.
    from tokenizers import Tokenizer

    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - it raises no class of its own
        raise _damaged(path, str(error), fix) from None


def _numbers_of_weights(folder: Path, index: Mapping[str, Any], fix: str) -> int | None:
    """How many numbers the weights have; None where they are not in the format that can be asked."""
    named = index.get("weight_map")
    if index and not isinstance(named, dict):
        raise _damaged(folder / "model.safetensors.index.json", "it has no weight_map", fix)
    files = {folder / str(name) for name in (named or {}).values()} or set(folder.glob("*.safetensors"))
    if not files:
        if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
            return None
        raise _damaged(folder, "it has no weights (*.safetensors)", fix)
    return sum(_numbers_in(file, fix) for file in sorted(files))


def _numbers_in(file: Path, fix: str) -> int:
    from safetensors import SafetensorError, safe_open

    try:
        if not file.is_file():
            raise Unread("it is no plain file" if file.exists() else "it is not there")
        with safe_open(file, framework="numpy") as weights:
            return sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    except (SafetensorError, Unread, OSError) as error:
        why = "it is empty" if isinstance(error, OSError) and error.errno == errno.EINVAL else str(error)
        raise _damaged(file, why, fix) from None
