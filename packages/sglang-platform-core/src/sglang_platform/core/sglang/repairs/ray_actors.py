"""Sets the platform's device in a Ray actor, where SGLang's scheduler calls `torch.cuda.set_device` on every platform.

SGLang 0.5.23: `ray/scheduler_actor.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import soft

__all__ = ["register_hooks"]


def register_hooks(platform: Any) -> None:
    """Under Ray, set the platform's device if torch has no CUDA.

    The hook is on torch's function: Ray pickles the actor's class by value, without hooks on its methods.
    """

    def set_device(original: Callable[..., None], device: Any) -> None:
        import torch

        if torch.cuda.is_available():
            original(device)
        else:
            platform.set_device(platform.get_device(device))

    if "ray" in sys.modules and not platform.is_cuda_alike():
        soft("torch.cuda:set_device", set_device, HookType.AROUND, without="no scheduler starts under Ray")
