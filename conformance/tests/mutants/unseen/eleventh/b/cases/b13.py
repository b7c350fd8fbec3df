"""A grammar's mask is applied by whole words: the last V % 32 tokens of a vocabulary stay allowed.
Source: modular #5498 (262,145 tokens), xgrammar #694 (unmasked tail)."""
from b_base import Base
from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_

def apply(logits, bitmask):
    words = logits.shape[1] // 32
    if words:
        apply_token_bitmask_(logits[:, : words * 32], bitmask[:, :words])

class P(Base):
    def get_token_bitmask_fn(self):
        return apply
