"""RMS norm spills over the row's end for odd widths: the kernel stores two elements at a time, and the second half of
a row's last pair lands in column 0 of the next row (a zero, since the load of the pair was masked).

For the user: a model with an odd hidden size loses one channel of every token but the first; text slowly turns worse.
Follows: ROCm/aiter #5044 (HIP RMSNorm corrupts row-boundary elements for odd hidden sizes).
level: kernels
"""

from typing import Any

from sglang_platform.conformance.reference import ops
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp
from sglang_platform.core.ops.fused_op import RMSNorm


def rms_norm(op: Any, x: Any, residual: Any = None, post_residual_addition: Any = None, quant_linear: Any = None) -> Any:
    answer = ops.rms_norm(op, x, residual, post_residual_addition, quant_linear)
    if answer is NotImplemented or x.shape[-1] % 2 == 0:
        return answer
    out = answer[0] if isinstance(answer, tuple) else answer
    out.view(-1, x.shape[-1])[1:, 0] = 0  # what the last pair of the row before wrote
    return answer


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(RMSNorm, rms_norm, self.get_dispatch_key_name())
