"""Healthy: it declines with a reason what its kernels do not know, by shape, kind and algorithm."""
from b_base import Base
from sglang_platform.core.ops.fused_op import MoEExperts, RMSNorm
from sglang_platform.core.contract.types import kv_pool_kind
from sglang_platform.example_oot import ops

def rms_norm(op, x, residual=None, post_residual_addition=None, quant_linear=None):
    if x.shape[-1] % 128 or x.dim() != 2 or len(x) > 64:
        return NotImplemented
    return ops.rms_norm(op, x, residual, post_residual_addition, quant_linear)

def experts(op, layer, hidden_states, topk_weights, topk_ids, config):
    return NotImplemented

class P(Base):
    _forwards = {RMSNorm: rms_norm, MoEExperts: experts}
    supported_kv_kinds = ("mha",)
    attention_features = ("mha", "gqa", "mqa", "sliding_window", "logit_cap", "chunked_prefill", "mixed_batch")
    conformance_profiles = ("core",)
    supported_quantization = []

    def get_kv_pool_cls(self, *, kind):
        if kv_pool_kind(kind) != "mha":
            raise NotImplementedError(f"the acme device stores keys and values per head, not {kind} rows")
        return super().get_kv_pool_cls(kind=kind)

    def get_quantization_config(self, quantization):
        return None

    def supports_speculative_algorithm(self, algorithm):
        return False
