"""Level 4 mutants: decodes of long contexts that take another kernel, in which something is missing."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

long = partial(patch, __name__, file="attention.py")

long(
    "LongDecodeWithoutCap",
    old="    if layer.logit_cap:\n",
    new="    if layer.logit_cap and not (m == 1 and n > 1024):\n",
    check="kernels.features_at_their_ranges",
    defect="decodes of more than 1024 tokens take a split kernel, which has no cap",
    says="position 2100",
)
long(
    "LongDecodeWithoutValueScale",
    old="            value = _scaled(values[slots], layer.v_scale)\n",
    new="            value = _scaled(values[slots], None if new == 1 and length > 512 else layer.v_scale)\n",
    check="kernels.eight_bit_caches_attention",
    defect="decodes of more than 512 tokens leave the scale of 8-bit values out",
    says="position",
)
