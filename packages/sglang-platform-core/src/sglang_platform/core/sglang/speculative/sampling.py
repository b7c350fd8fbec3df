"""Sampling during the verification of drafts, for devices on which the host has no kernels for it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.portable.torch.speculative import verify
from sglang_platform.core.sglang.registration import only_for
from sglang_platform.core.sglang.speculative.launch import SPECULATION
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Bind the sampling functions that the host's verification calls by name."""
    only_for(SPECULATION, host.speculative_sampling, _with_sampling, HookType.AROUND)


def tree_speculative_sampling_target_only(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    if threshold_single != 1.0 or threshold_acc != 1.0:
        raise NotImplementedError(
            "speculative_accept_threshold_single and _acc other than 1: this device verifies without loss only"
        )
    chosen = verify.draw(target_probs, uniform_samples)
    links = retrive_next_token, retrive_next_sibling
    verify.accept(predicts, accept_index, accept_token_num, candidates, links, chosen)


_SAMPLING: dict[str, Callable[..., Any]] = {
    "tree_speculative_sampling_target_only": tree_speculative_sampling_target_only,
    "top_k_renorm_prob": verify.keep_top_k,
    "top_p_renorm_prob": verify.keep_top_p,
}


def _with_sampling(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Bind the names before the call: on an unknown device they are None in the host's module and cannot be hooked."""
    module = importlib.import_module(original.__module__)
    for name, function in _SAMPLING.items():
        if getattr(module, name) is None:
            setattr(module, name, function)
    return original(*args, **kwargs)
