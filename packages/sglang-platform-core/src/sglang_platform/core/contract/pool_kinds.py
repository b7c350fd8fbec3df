"""The kinds of KV pool: one row per kind, asked for by `SRTPlatform.get_kv_pool_cls(kind=...)`.

A new kind is one row here and its base class in `core/memory`. A plugin registers the row of a kind of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from sglang_platform.core.errors import ContractError
from sglang_platform.core.spelling import shown

__all__ = ["KINDS", "KV_POOL_KINDS", "PLACE", "PoolKind", "register_pool_kind"]

PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""`package.module:name`."""


@dataclass(frozen=True, kw_only=True)
class PoolKind:
    """One kind of KV pool.

    name: as platforms and hosts say it today; older_names: as earlier releases of SGLang did.
    row: what one token keeps in one layer.
    base: the base class without a host, as `"package.module:name"`, so that this imports nothing. Its constructor takes
        the keywords that give the shape of a row, besides those of every pool: `size`, `page_size`, `dtype`,
        `layer_num`, `device`, `enable_memory_saver`, `start_layer`, `end_layer`.
    host_class: for a plugin's kind, the host's class that pools of it are re-based on, as `"package.module:name"`.
        None: the host's counterpart of `base`.
    """

    name: str
    row: str
    base: str
    older_names: tuple[str, ...] = ()
    host_class: str | None = None


_ROWS = (
    PoolKind(
        name="mha",
        row="keys [head_num, head_dim] and values [head_num, v_head_dim]",
        base="sglang_platform.core.memory.mha:MHATokenToKVPool",
    ),
    PoolKind(
        name="mla",
        row="kv_lora_rank + qk_rope_head_dim numbers: the latent, which is the values, then the rotated part",
        base="sglang_platform.core.memory.mla:MLATokenToKVPool",
    ),
    PoolKind(
        name="dsa",
        older_names=("nsa",),
        row="the row of mla, and the indexer's key of index_head_dim bytes with a float32 scale per 128 of them",
        base="sglang_platform.core.memory.dsa:DSATokenToKVPool",
    ),
)

KINDS: dict[str, PoolKind] = {row.name: row for row in _ROWS}

KV_POOL_KINDS: Set[str] = KINDS.keys()
"""The words of `SRTPlatform.supported_kv_kinds`: the names of the rows, as they are now."""


def register_pool_kind(row: PoolKind) -> None:
    """Add a kind of a plugin's own; the same row again does nothing. A pool class says that it is of the kind by
    `_pool_kind`. Raises ContractError where another row has one of its names, or a field of it cannot be used."""
    if not isinstance(row, PoolKind):
        raise TypeError(f"register_pool_kind takes a PoolKind, got {shown(row)}")
    for held in KINDS.values():
        taken = {held.name, *held.older_names} & {row.name, *row.older_names}
        if held != row and taken:
            raise ContractError(
                f"two kinds of KV pool are called {min(taken)!r}",
                why=f"a token keeps in one: {held.row}; in the other: {row.row}",
                fix="give the plugin's kind a name of its own",
            )
    if problems := list(_problems(row)):
        raise ContractError(
            f"the record of the KV pool kind {row.name!r} cannot be used",
            why="; ".join(problems),
            fix="correct it where register_pool_kind() is called",
        )
    KINDS[row.name] = row


def _problems(row: PoolKind) -> Iterator[str]:
    if not row.name.isidentifier():
        yield f"name is {row.name!r}, no identifier"
    for name in row.older_names:
        if not name.isidentifier():
            yield f"older_names holds {name!r}, no identifier"
    for field in ("base", "host_class"):
        place = getattr(row, field)
        if place is not None and not PLACE.fullmatch(place):
            yield f"{field} is {place!r}, no `package.module:name`"
