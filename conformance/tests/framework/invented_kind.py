"""A kind of KV pool that the contract does not know: latent rows without a rotated part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglang_platform.conformance.fixtures.pool_kinds.mla import MLAFixture
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.reference.pools import ReferenceMLAPool
from sglang_platform.core import MLATokenToKVPool
from sglang_platform.core.contract.pool_kinds import PoolKind

KIND = PoolKind(
    name="latent",
    older_names=("lat",),
    row="kv_lora_rank numbers, which are keys and values",
    base="invented_kind:LatentTokenToKVPool",
)
"""The contract's row."""


class LatentTokenToKVPool(MLATokenToKVPool):
    """The base class that core would have."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(qk_rope_head_dim=0, **keywords)


class LatentFixture(MLAFixture):
    """What the suite would know of it. Rows are (kv_lora_rank,)."""

    rows = [(8,), (24,), (512,)]
    small = {"kv_lora_rank": 16}
    reference = "invented_kind:ReferenceLatentPool"

    def keywords(self, row: tuple[int, ...]) -> dict[str, int]:
        return {"kv_lora_rank": row[0]}

    def row_shapes(self, given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        return {"rows": (1, given["kv_lora_rank"])}


class ReferenceLatentPool(ReferenceMLAPool, LatentTokenToKVPool):
    """The pool that the suite's own platform would have."""


class OneSlotOff(ReferenceLatentPool):
    """A pool with a defect."""

    def _write(self, buffer: Any, loc: Any, rows: Any) -> None:
        super()._write(buffer, loc - 1, rows)


def declares(pool: type = ReferenceLatentPool) -> type:
    """A platform that declares the kind, and answers with `pool`. Made when the row is there: its class is checked."""

    class Declares(ReferencePlatform):
        supported_kv_kinds = (KIND.name,)

        def get_kv_pool_cls(self, *, kind: str) -> type | None:
            return pool if kind == KIND.name else None

    return Declares
