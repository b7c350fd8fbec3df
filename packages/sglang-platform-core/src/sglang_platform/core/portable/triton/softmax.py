"""One step of softmax in one pass, shared by the attention kernels.

For rows of scores s (already times log2(e), so that 2^s is what is summed), with running maximum m, sum l and weighted
sum a of values:

    m' = max(m, max_j s_j),   p_j = 2^(s_j - m'),   r = 2^(m - m'),   l' = r l + sum_j p_j,   a' = r a + sum_j p_j v_j

Source: Milakov and Gimelshein, arXiv 1805.02867; the blocked form is FlashAttention's (arXiv 2205.14135).
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["capped_scores", "softmax_step", "softmax_step_by_block"]


@triton.jit
def capped_scores(scores, scale, cap, CAPPED: tl.constexpr):
    """`scores` times `scale`, soft-capped to cap * tanh(x / cap) where asked, times log2(e)."""
    INV_LN2: tl.constexpr = 1.4426950408889634
    if CAPPED:
        x = scores * (scale / cap)
        # tanh(x) = 1 - 2 / (e^2x + 1), which is right at both infinities of the exponential.
        return (cap * INV_LN2) * (1.0 - 2.0 / (tl.exp2(x * (2.0 * INV_LN2)) + 1.0))
    else:
        return scores * (scale * INV_LN2)


@triton.jit
def softmax_step(scores, m, total):
    """scores [R, N] (-inf: not seen), m and total (l above) [R] -> p [R, N], r [R], m', total'.

    Rows that have seen nothing stay at m = -inf, total = 0.
    """
    m_new = tl.maximum(m, tl.max(scores, 1))
    m_finite = tl.where(m_new == float("-inf"), 0.0, m_new)
    p = tl.exp2(scores - m_finite[:, None])
    r = tl.exp2(m - m_finite)
    return p, r, m_new, total * r + tl.sum(p, 1)


@triton.jit
def softmax_step_by_block(scores, m, total, largest):
    """As `softmax_step`, but the weights of a block are relative to the largest of this block, for products that hold
    small weights badly: p is 1 somewhere in each row, unless the row's `largest` of all blocks is 2^32 times as much.

    -> p [R, N], r [R], m', total', largest'. m' is what total' and the sum of values are relative to.
    """
    block = tl.max(scores, 1)
    largest = tl.maximum(largest, block)
    m_new = tl.maximum(block, largest - 32.0)
    m_finite = tl.where(m_new == float("-inf"), 0.0, m_new)
    p = tl.exp2(scores - m_finite[:, None])
    r = tl.exp2(m - m_finite)
    return p, r, m_new, total * r + tl.sum(p, 1), largest
