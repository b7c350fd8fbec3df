"""The Gemma 3 norm takes its rows to lie one behind the other: of an input with gaps (the query columns of a fused QKV
projection, split into heads) it reads the wrong memory from the second token on.

For the user: Gemma 3 decodes one request well, and writes nonsense for a prompt or a batch.
Follows: vllm-project/vllm-xpu-kernels #397, #396 and vllm #28103 (rms_norm of a non-contiguous input). SGLang calls it so in
srt/models/gemma3_causal.py:262-266.
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference import more_ops
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.described import Gemma3RMSNorm


def _as_the_kernel_reads(x: torch.Tensor) -> torch.Tensor:
    held = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    if x.is_contiguous() or held < x.numel():
        return x
    dense = torch.empty(x.shape, device="meta")
    return x.as_strided(x.shape, dense.stride())


def gemma3_rms_norm(op: Any, x: torch.Tensor, residual: Any = None) -> Any:
    return more_ops.gemma3_rms_norm(op, _as_the_kernel_reads(x), residual)


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(Gemma3RMSNorm, gemma3_rms_norm, self.get_dispatch_key_name())
