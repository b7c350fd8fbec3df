"""Fixes `token_ids_logprob` in a batch where only some requests ask for it.

Up to SGLang 0.5.20, requests that do not ask for it get a list where the scheduler expects a tensor, and the first such
batch ends the server. Two concurrent clients suffice. SGLang: `get_token_ids_logprobs` in `layers/utils/logprob.py`,
since 0.5.16 in `layers/logprob_processor.py`.
"""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Return a tensor for each request, in releases of SGLang that do not."""
    if host.leaves_out_token_logprobs is not None:
        soft(
            host.leaves_out_token_logprobs, _a_tensor_for_each, HookType.AROUND,
            without="the server ends where some requests of a batch ask for token_ids_logprob and others do not",
        )  # fmt: skip


def _a_tensor_for_each(
    original: Any, logprobs: torch.Tensor, token_ids_logprobs: Any, no_copy_to_cpu: bool = False
) -> tuple[list[Any], list[Any]]:
    """`logprobs` is `[batch, vocabulary]`; a request without ids gets an empty tensor of the same type and device."""
    values, ids = original(logprobs, token_ids_logprobs, no_copy_to_cpu)
    if no_copy_to_cpu:
        values = [one if isinstance(one, torch.Tensor) else logprobs.new_empty(0) for one in values]
    return values, ids
