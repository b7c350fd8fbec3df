"""The state kernels in plain torch, by their names in the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sglang_platform.core.portable.torch.gated_delta import gated_delta_gates, gated_delta_rule
from sglang_platform.core.portable.torch.gated_norm import gated_rms_norm
from sglang_platform.core.portable.torch.short_convolution import short_convolution
from sglang_platform.core.portable.torch.state_space import state_space

__all__ = ["PORTABLE_STATE_KERNELS"]

PORTABLE_STATE_KERNELS: Mapping[str, Callable[..., Any]] = {
    "short_convolution": short_convolution,
    "gated_delta_gates": gated_delta_gates,
    "gated_delta_rule": gated_delta_rule,
    "state_space": state_space,
    "gated_rms_norm": gated_rms_norm,
}
