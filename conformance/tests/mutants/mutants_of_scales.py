"""Level 3 mutants: scales of a store, and of the tiles of packed rows."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

pool = partial(patch, __name__, file="pools.py")
packed = partial(patch, __name__, file="packed_rows.py", check="memory.dsa_packed_rows_read_back")

_KEYS = "        self._write(self.k_buffer[place], loc, as_stored(cache_k, self.dtype, k_scale))\n"
_VALUES = "        self._write(self.v_buffer[place], loc, as_stored(cache_v, self.dtype, v_scale))\n"
_SCALES = "    scales = tiles.abs().amax(dim=-1) / largest\n"
_UNLIKE = "memory.store_casts_and_scales"

pool(
    "ScalesOfTheFirstStore",
    old=_KEYS,
    new="        k_scale = self.__dict__.setdefault('_first', {}).setdefault(place, k_scale)\n" + _KEYS,
    check=_UNLIKE,
    defect="the scale of a layer's keys is kept from its first store",
    says="store 2",
)
pool(
    "ValuesScaledAsKeys",
    old=_VALUES,
    new=_VALUES.replace("v_scale", "k_scale if v_scale is None else v_scale"),
    check=_UNLIKE,
    defect="values without a scale are divided by that of the keys",
    says="values of layer",
)
packed(
    "ZerosDividedByZero",
    old="    scales[scales == 0] = 1.0  # any will do for zeros\n",
    new="",
    defect="a tile of zeros is divided by its scale of zero",
    says="the latent part",
)
packed(
    "TileScalesOf16Bits",
    old=_SCALES,
    new=_SCALES + "    scales = scales.half().float()\n",
    defect="scales of tiles pass through float16, and those of small tiles are rounded away",
    says="the latent part",
)
packed(
    "RotatedPartOfFloat16",
    old="        rotated.to(torch.bfloat16).contiguous()",
    new="        rotated.half().to(torch.bfloat16).contiguous()",
    defect="the rotated part passes through float16",
    says="the rotated part",
)
patch(
    __name__,
    "IndexerStores256Tokens",
    "dsa_pool.py",
    "        for slot, key, scale in zip(loc.tolist(), keys, scales, strict=True):\n",
    "        for slot, key, scale in list(zip(loc.tolist(), keys, scales, strict=True))[:256]:\n",
    check="memory.dsa_index_keys_read_back",
    defect="one launch stores the indexer's keys of 256 tokens",
    says="1300 tokens",
)
