"""Healthy. The norm with a residual and the rotary embedding work in place and answer the tensors that they were given, as
SGLang's own CUDA forwards do (fused_add_rmsnorm; apply_rope_with_cos_sin_cache_inplace); inputs with gaps get new tensors.
Without a residual the norm answers a new tensor.

Permitted: SGLang's callers go on with the answers only; its own kernels overwrite these inputs.
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference import ops
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.fused_op import RMSNorm, RotaryEmbedding


def _into(given: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
    return given.copy_(answer) if given.is_contiguous() and given.dtype == answer.dtype else answer


def rms_norm(op: Any, x: Any, residual: Any = None, post_residual_addition: Any = None, quant_linear: Any = None) -> Any:
    answer = ops.rms_norm(op, x, residual, post_residual_addition, quant_linear)
    if answer is NotImplemented or residual is None:
        return answer
    return _into(x, answer[0]), _into(residual, answer[1])


def rotary_embedding(
    op: Any, positions: Any, query: Any, key: Any, offsets: Any = None, fused_set_kv_buffer_arg: Any = None
) -> Any:
    answer = ops.rotary_embedding(op, positions, query, key, offsets, fused_set_kv_buffer_arg)
    if answer is NotImplemented:
        return answer
    return _into(query, answer[0]), _into(key, answer[1])


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(RMSNorm, rms_norm, self.get_dispatch_key_name())
        FusedOp.register_oot_forward(RotaryEmbedding, rotary_embedding, self.get_dispatch_key_name())
