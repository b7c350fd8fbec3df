"""Functions of `sgl_kernel` in torch, for a CUDA or ROCm device without that library.

Signatures and results are those of `sgl_kernel`. The package's own fused ops come first where it registers them: these
serve the calls that they do not know, and functions that no op of SGLang stands before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from sglang_platform.core.portable.torch.speculative import verify
from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_

__all__ = ["FUNCTIONS"]


def _gated(
    activation: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, out: Any = None
) -> torch.Tensor:
    """`activation` of the left half of the columns, times the right half; in float32, rounded once."""
    gate, up = x.float().chunk(2, dim=-1)
    return _into(out, (activation(gate) * up).to(x.dtype))


def _gelu_quick(x: torch.Tensor, out: Any = None) -> torch.Tensor:
    return _into(out, x * torch.sigmoid(1.702 * x))


def _into(out: torch.Tensor | None, result: torch.Tensor) -> torch.Tensor:
    return result if out is None else out.copy_(result)


def _rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    out: Any = None,
    enable_pdl: Any = None,
    *,
    added: float = 0,
) -> torch.Tensor:
    """`added` to the weight, as Gemma's norms have it (1)."""
    wide = x.float()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return _into(out, (normed * (weight.float() + added)).to(x.dtype))


def _fused_add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    enable_pdl: Any = None,
    *,
    added: float = 0,
) -> None:
    """Writes the sum to `residual`, its norm to `x`."""
    total = x.float() + residual.float()
    residual.copy_(total)
    normed = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    x.copy_(normed * (weight.float() + added))


def _moe_sum(x: torch.Tensor, out: torch.Tensor) -> None:
    """[tokens, chosen experts, columns] -> [tokens, columns]."""
    out.copy_(x.float().sum(1))


def _moe_sum_reduce(x: torch.Tensor, out: torch.Tensor, routed_scaling_factor: float) -> None:
    out.copy_(x.float().sum(1) * routed_scaling_factor)


def _merge_state(
    o_a: torch.Tensor,
    lse_a: torch.Tensor,
    o_b: torch.Tensor,
    lse_b: torch.Tensor,
    out: Any = None,
    lse_out: Any = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over two parts of a context, from each part's output [tokens, heads, columns] and log-sum-exp [tokens,
    heads]. A part of nothing has an infinite one."""
    lse_a, lse_b = (torch.where(lse.isinf(), -torch.inf, lse.float()) for lse in (lse_a, lse_b))
    lse = torch.logaddexp(lse_a, lse_b)
    shares = [torch.exp(part - lse).nan_to_num(0.0).unsqueeze(-1) for part in (lse_a, lse_b)]
    merged = o_a.float() * shares[0] + o_b.float() * shares[1]
    return _into(out, merged.to(o_a.dtype)), _into(lse_out, lse)


def _int8_scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scales_a: torch.Tensor,
    scales_b: torch.Tensor,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """[m, k] int8 times [k, n] int8 with a scale per row of `a` and per column of `b`."""
    rows = a.shape[0]
    if rows <= 16:  # cuBLAS multiplies more than 16 rows only
        a = F.pad(a, (0, 0, 0, 32 - rows))
    product = torch._int_mm(a.contiguous(), b)[:rows].float()
    product = product * scales_a.view(-1, 1) * scales_b.view(1, -1)
    return (product if bias is None else product + bias.float()).to(out_dtype)


def _apply_token_bitmask(logits: torch.Tensor, bitmask: torch.Tensor, indices: Any = None) -> None:
    """In the rows `indices`, or all; columns past the mask's last bit are left alone."""
    logits = logits[:, : 32 * bitmask.shape[1]]
    if indices is None:
        apply_token_bitmask_(logits, bitmask)
    else:
        rows = torch.as_tensor(indices, device=logits.device, dtype=torch.long)
        masked = logits[rows]
        apply_token_bitmask_(masked, bitmask[rows])
        logits[rows] = masked


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    """`weak_ref_tensor`: a reference that keeps the memory, for want of one that does not."""
    return tensor


FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "sgl_kernel": {
        "apply_token_bitmask_inplace_cuda": _apply_token_bitmask,
        "fused_add_rmsnorm": _fused_add_rms_norm,
        "gelu_and_mul": partial(_gated, F.gelu),
        "gelu_quick": _gelu_quick,
        "gelu_tanh_and_mul": partial(_gated, partial(F.gelu, approximate="tanh")),
        "gemma_fused_add_rmsnorm": partial(_fused_add_rms_norm, added=1),
        "gemma_rmsnorm": partial(_rms_norm, added=1),
        "int8_scaled_mm": _int8_scaled_mm,
        "merge_state_v2": _merge_state,
        "moe_sum": _moe_sum,
        "moe_sum_reduce": _moe_sum_reduce,
        "rmsnorm": _rms_norm,
        "silu_and_mul": partial(_gated, F.silu),
        "top_k_renorm_prob": verify.keep_top_k,
        "top_p_renorm_prob": verify.keep_top_p,
        "weak_ref_tensor": _itself,
    },
    "sgl_kernel.utils": {"is_arch_support_pdl": lambda device_id=0: False},
}
"""By module, the functions that are served."""
