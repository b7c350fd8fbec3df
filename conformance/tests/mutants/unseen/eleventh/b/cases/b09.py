"""Gemma's 1 + weight is computed once and kept on the op: after an update of the weights the old ones serve.
Source: HPU/NPU norm wrappers that fold the shift at the first call; SGLang updates weights in place
(scheduler.py:1843-1875 update_weights_from_disk/distributed/tensor)."""
from b_base import Base
from sglang_platform.core.ops import described
from sglang_platform.example_oot import kernels, more_ops
import torch

def gemma(op, x, residual=None, post_residual_addition=None):
    if x.dtype != op.weight.dtype or residual is not None or post_residual_addition is not None:
        return more_ops.gemma_rms_norm(op, x, residual, post_residual_addition)
    kept = op.__dict__.get("_acme_scale")
    if kept is None or kept.device != x.device:
        kept = op.__dict__["_acme_scale"] = op.weight.detach().float() + 1.0
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = torch.empty_like(rows)
    kernels.rms_norm(rows, kept, op.variance_epsilon, out, 0.0)
    return out.view(x.shape)

class P(Base):
    _forwards = {described.GemmaRMSNorm: gemma}
