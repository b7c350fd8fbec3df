"""Requests that change how the server runs: those that would end its workers are refused before they are sent.

SGLang's workers take such a request as an order, and what they cannot do ends them.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.checked import load
from sglang_platform.core.hosts.sglang.srt.served_model import resolved
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_MANAGER = "sglang.srt.managers.tokenizer_manager:TokenizerManager"
_RECORDS = ("start", "stop", "dump")


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Check orders to the workers, for every platform of ours."""
    HookRegistry.register(f"{_MANAGER}.update_weights_from_disk", _check_load_format, HookType.BEFORE)
    for verb in _RECORDS:
        target = f"{_MANAGER}.{verb}_expert_distribution_record"
        HookRegistry.register(target, _check_recorder, HookType.BEFORE)


def _check_load_format(manager: Any, request: Any, *args: Any, **kwargs: Any) -> None:
    formats = [one.value for one in load("sglang.srt.configs.load_config:LoadFormat")]
    if request.load_format is not None and request.load_format not in formats:
        raise ValueError(f"load_format is {request.load_format!r}; there are {', '.join(formats)}")


def _check_recorder(manager: Any, *args: Any, **kwargs: Any) -> None:
    if resolved(manager.server_args).expert_distribution_recorder_mode is None:
        raise ValueError(
            "the server records no expert distribution; it does with --expert-distribution-recorder-mode"
        )
