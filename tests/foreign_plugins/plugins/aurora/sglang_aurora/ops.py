"""Forwards of fused ops; SGLang binds them to the op."""

import torch


def rms_norm(self, x, residual=None, *args, **kwargs):
    return self.forward_native(x, residual, *args, **kwargs)


def silu_and_mul(self, x):
    half = x.shape[-1] // 2
    return torch.nn.functional.silu(x[..., :half]) * x[..., half:]
