"""Five fused ops of seventeen, under a key of its own; options are declined with the reason in the log; the norm with a
residual writes into its arguments, as SGLang's own; one state kernel of five, in float64.

Permitted by: docs/contract.md ("For a call that it does not serve it answers `NotImplemented`, and the forward runs that
would have without it"), SGLang 0.5.23 srt/layers/layernorm.py RMSNorm.forward_cuda (fused_add_rmsnorm(x, residual, ...)
writes both and answers them), SRTPlatform.get_state_kernels ("Core's own in plain torch stand in for those that are left
out"), SRTPlatform.get_dispatch_key_name ("a key of one's own needs registered forwards").

level: kernels
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.fused_op import RMSNorm, SiluAndMul

_log = logging.getLogger(__name__)


def _declined(op: Any, why: str) -> Any:
    _log.debug("%s is left to the host: %s", type(op).__name__, why)
    return NotImplemented


def _rms_norm(
    op: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None = None,
    post_residual_addition: torch.Tensor | None = None,
    quant_linear: Any = None,
) -> Any:
    """RMS norm; with a residual in place of both."""
    for option in ("variance_size_override", "override_orig_dtype", "fp32_residual", "cast_x_before_out_mul"):
        if getattr(op, option, None):
            return _declined(op, f"{option} is set")
    if quant_linear is not None or post_residual_addition is not None:
        return _declined(op, "an addition or a quantised product is asked for")
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return _declined(op, f"the type is {x.dtype}")
    wide = x.float()
    if residual is not None:
        if residual.shape != x.shape or residual.dtype != x.dtype or not residual.is_contiguous():
            return _declined(op, "the residual is of another form")
        wide = wide + residual.float()
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + op.variance_epsilon)
    normed = wide * scale * op.weight.float()
    if residual is None:
        return normed.to(x.dtype).contiguous()
    residual.copy_(wide)
    if not x.is_contiguous():
        return normed.to(x.dtype).contiguous(), residual
    return x.copy_(normed), residual


def _silu_and_mul(op: Any, x: torch.Tensor) -> Any:
    gate, up = x.double().tensor_split(2, dim=-1)
    return (gate / (1 + torch.exp(-gate)) * up).to(x.dtype).contiguous()


def _gelu_and_mul(op: Any, x: torch.Tensor) -> Any:
    if op.approximate != "tanh":
        return _declined(op, "the exact gelu is asked for")
    gate, up = x.float().tensor_split(2, dim=-1)
    return (torch.nn.functional.gelu(gate, approximate="tanh") * up).to(x.dtype).contiguous()


def _relu2(op: Any, x: torch.Tensor) -> Any:
    positive = torch.relu(x.float())
    return (positive * positive).to(x.dtype).contiguous()


def _layer_norm(op: Any, x: torch.Tensor) -> Any:
    if not op.elementwise_affine or not op.use_bias:
        return _declined(op, "no weight, or no bias")
    y = torch.nn.functional.layer_norm(
        x.double(), x.shape[-1:], op.weight.double(), op.bias.double(), op.variance_epsilon
    )
    return y.to(x.dtype).contiguous()


def _gates(
    a: torch.Tensor, b: torch.Tensor, decay_log: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gated_delta_gates` of the contract."""
    both = a.double() + bias.double()
    log_decay = -decay_log.double().exp() * torch.logaddexp(both, torch.zeros_like(both))
    return log_decay.float(), torch.sigmoid(b.double()).float()


class Platform(ReferencePlatform):
    """What it does not register is SGLang's plain torch."""

    _OPS: Mapping[Any, Callable[..., Any]] = MappingProxyType(
        {
            RMSNorm: _rms_norm,
            SiluAndMul: _silu_and_mul,
            "activation.gelu_and_mul": _gelu_and_mul,
            "ReLU2": _relu2,
            "layernorm.layer_norm": _layer_norm,
        }
    )

    def get_dispatch_key_name(self) -> str:
        return "thirteen"

    def init_backend(self) -> None:
        for op, forward in self._OPS.items():
            FusedOp.register_oot_forward(
                op,
                forward,
                self.get_dispatch_key_name(),
            )

    def get_state_kernels(self) -> Mapping[str, Callable[..., Any]]:
        return MappingProxyType({"gated_delta_gates": _gates})
