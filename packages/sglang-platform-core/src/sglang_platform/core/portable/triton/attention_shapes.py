"""Device-independent computations of the attention wrappers on their arguments."""

from __future__ import annotations

import torch

__all__ = [
    "MOST_SPLITS",
    "TOKENS_PER_PART",
    "head_parts",
    "logit_chunks",
    "one_element",
    "shares_values",
    "split_count",
]

TOKENS_PER_PART = 256
"""Fewer tokens than this are not worth a program and its share of the merge."""
# The target occupancy: the share of the processors with a program in every wave.
_FULL = 0.95
MOST_SPLITS = 64
"""The maximum number of parts per sequence on average."""


def shares_values(k: torch.Tensor, v: torch.Tensor, values: int) -> bool:
    """Whether v is the first columns of k, as in absorbed MLA, and a power of two of them."""
    same = k.data_ptr() == v.data_ptr() and k.stride(0) == v.stride(0) and k.shape[1] == 1 == v.shape[1]
    return same and k.shape[-1] > values and values & (values - 1) == 0


def head_parts(dim: int, main: int | None = None) -> tuple[int, int]:
    """A head of `dim` columns as a main part and the rest, padded to a power of two (0: none), at least 16 each.

    `main` fixes the first; otherwise it is the largest power of two within `dim`.
    """
    if main is None:
        main = 1 << (dim.bit_length() - 1)
    if main < 16:
        raise ValueError(f"a head of {dim} columns: at least 16 are needed")
    rest = dim - main
    return main, 0 if rest == 0 else max(16, 1 << (rest - 1).bit_length())


_MOST_LOGITS = 1 << 26
"""Limit of the indexer's float32 logits that exist at once: 256 MiB."""


def logit_chunks(tokens: int, width: int) -> list[slice]:
    """The new tokens in chunks whose logits over `width` cached tokens stay within the limit; at least one chunk."""
    rows = max(1, _MOST_LOGITS // max(1, width))
    return [slice(at, at + rows) for at in range(0, max(1, tokens), rows)]


_ones: dict[torch.device, torch.Tensor] = {}


def one_element(
    like: torch.Tensor, k_scale: torch.Tensor | None, v_scale: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both scales as tensors; 1 where only the other is given."""
    if k_scale is None and v_scale is None:
        return like, like
    if like.device not in _ones:
        _ones[like.device] = torch.ones(1, dtype=torch.float32, device=like.device)
    one = _ones[like.device]
    return (one if k_scale is None else k_scale), (one if v_scale is None else v_scale)


def split_count(processors: int, waves: int, programs: int, tokens: int) -> int:
    """The number of parts per sequence of up to `tokens`, given `programs` without splitting and a target of `waves`
    programs per processor. It may be up to twice as high where that fills the last wave better."""
    wanted, most = -(-waves * processors // max(1, programs)), -(-tokens // TOKENS_PER_PART)
    least = max(1, min(wanted, most, MOST_SPLITS))
    counts = range(least, max(least, min(2 * least, most, MOST_SPLITS)) + 1)
    return max(counts, key=lambda n: min(_FULL, n * programs / (-(-n * programs // processors) * processors)))
