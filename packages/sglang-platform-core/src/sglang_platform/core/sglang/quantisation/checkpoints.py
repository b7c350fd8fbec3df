"""Checkpoints whose weights are quantised, on a device that has no kernels for their format.

SGLang would build layers whose kernels exist for CUDA only, and crash while loading them. Here the model is built
unquantised, and the weights are dequantised while they are loaded. A format without a reader is refused before the
launch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.portable.torch.stored_weights import (
    CannotRead,
    dequantised,
    stored_weights,
)
from sglang_platform.core.sglang.registration import Feature, LaunchSettings, only_for
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_logger = logging.getLogger(__name__)

_CONFIG = "sglang.srt.configs.model_config:ModelConfig._verify_quantization"
_WEIGHTS = "sglang.srt.model_loader.loader:DefaultModelLoader._get_weights_iterator"

_DESCRIBED = "_sglang_platform_quantised"
"""The attribute of the host's model config that holds the format for the loader. Plain data: it crosses processes."""

_known: dict[str, dict[str, Any]] = {}
"""Formats by model path: the host may build a second config from settings from which the first removed the format."""


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Dequantise checkpoints of undeclared methods, on an out-of-tree platform without Triton."""
    if not platform.is_out_of_tree() or platform.capabilities.supports_triton:
        return

    def verify(original: Callable[[Any], None], config: Any) -> None:
        described = config._parse_quant_hf_config() or _known.get(config.model_path)
        if described is None or _served_by(platform, config.quantization or described.get("quant_method")):
            original(config)
            return
        _check(platform, described)
        vars(config)[_DESCRIBED] = _known[config.model_path] = dict(described)
        _logger.warning(
            "platform %s has no kernels for weights of the method %r: they are read back as %s, and the model takes "
            "the memory that it takes unquantised",
            platform.device_name, described.get("quant_method"), config.dtype,
        )  # fmt: skip
        config.quantization = None
        for described_in in (config.hf_config, getattr(config, "hf_text_config", None)):
            for name in ("quantization_config", "compression_config"):
                if getattr(described_in, name, None) is not None:
                    setattr(described_in, name, None)
        config.hf_quant_config = {}

    def is_read_back(launch: LaunchSettings) -> bool:
        if launch.model_config is None:
            return False
        method = launch.model_config.quantization
        left = method is not None and not _served_by(platform, method)
        return left or _DESCRIBED in vars(launch.model_config)

    feature = Feature("a checkpoint with quantised weights", is_read_back)
    only_for(feature, _CONFIG, verify, HookType.AROUND)
    only_for(feature, _WEIGHTS, _read_back, HookType.AROUND)


def _served_by(platform: Any, method: Any) -> bool:
    """True if the platform declares `method`, the name in the checkpoint or the operator's."""
    name = str(method or "").lower()
    return (
        name in platform.supported_quantization or name.replace("_", "-") in platform.supported_quantization
    )


def _check(platform: Any, described: Any) -> None:
    """Raise LaunchRefused for a format without a reader."""
    try:
        stored_weights(described)
    except CannotRead as error:
        runs = ", ".join(platform.supported_quantization) or "no method"
        raise LaunchRefused(
            f"the platform {platform.device_name!r} cannot serve this quantised checkpoint",
            plugin=getattr(platform, "_plugin_origin", None),
            why=f"{error}; the platform's supported_quantization has {runs}, and the kernels of SGLang's own method "
            "are not for this device (sglang/srt/layers/quantization)",
            fix="serve the model unquantised, or in a format that is read; a vendor declares a method in "
            "supported_quantization and answers get_quantization_config() for it",
        ) from error


def _read_back(
    original: Callable[..., Iterator[tuple[str, torch.Tensor]]],
    loader: Any,
    source: Any,
    *args: Any,
    **kwargs: Any,
) -> Iterator[tuple[str, torch.Tensor]]:
    weights = original(loader, source, *args, **kwargs)
    described = vars(source.model_config).get(_DESCRIBED) if source.model_config is not None else None
    if described is None:
        return weights
    return dequantised(weights, stored_weights(described), source.model_config.dtype)
