"""The kinds of KV pool: one row per kind, asked for by `SRTPlatform.get_kv_pool_cls(kind=...)`.

A new kind is one row here and its class in `core/memory`; a kind of a plugin's own is a row that the plugin registers.
The contract, the host adapter and the conformance suite take what they need from the row. What is heavy is named as
`"package.module:name"`, so that this imports nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from sglang_platform.core.errors import ContractError
from sglang_platform.core.spelling import shown

__all__ = ["KINDS", "KV_POOL_KINDS", "PoolKind", "register_pool_kind"]

_PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_FIXTURES = "sglang_platform.conformance.fixtures.pool_kinds"


@dataclass(frozen=True, kw_only=True)
class PoolKind:
    """One kind of KV pool.

    name: as platforms and hosts say it today; older_names: as earlier releases of SGLang did.
    row: what one token keeps in one layer.
    base: the base class, without a host.
    keywords: the constructor keywords that give the shape of a row, besides those of every pool: `size`, `page_size`,
        `dtype`, `layer_num`, `device`, `enable_memory_saver`, `start_layer`, `end_layer`.
    host_class: the host's class in `sglang.srt.mem_cache.memory_pool`, or `"module:name"`; host_fact: the fact of a
        release that names it where releases differ (`sglang/versions.py`), else None.
    fixture: the suite's `PoolFixture` of this kind: the rows that it tries, and how it finds their bytes.
    reference: the suite's own pool of this kind, in a module of `sglang_platform.conformance.reference` where it begins
        with a dot.
    """

    name: str
    row: str
    base: str
    keywords: tuple[str, ...]
    host_class: str
    fixture: str
    reference: str
    older_names: tuple[str, ...] = ()
    host_fact: str | None = None


_ROWS = (
    PoolKind(
        name="mha",
        row="keys [head_num, head_dim] and values [head_num, v_head_dim]",
        base="sglang_platform.core.memory.mha:MHATokenToKVPool",
        keywords=("head_num", "head_dim", "v_head_dim"),
        host_class="MHATokenToKVPool",
        fixture=f"{_FIXTURES}:MHAFixture",
        reference=".pools:ReferenceMHAPool",
    ),
    PoolKind(
        name="mla",
        row="kv_lora_rank + qk_rope_head_dim numbers: the latent, which is the values, then the rotated part",
        base="sglang_platform.core.memory.mla:MLATokenToKVPool",
        keywords=("kv_lora_rank", "qk_rope_head_dim"),
        host_class="MLATokenToKVPool",
        fixture=f"{_FIXTURES}:MLAFixture",
        reference=".pools:ReferenceMLAPool",
    ),
    PoolKind(
        name="dsa",
        older_names=("nsa",),
        row="the row of mla, and the indexer's key of index_head_dim bytes with a float32 scale per 128 of them",
        base="sglang_platform.core.memory.dsa:DSATokenToKVPool",
        keywords=("kv_lora_rank", "qk_rope_head_dim", "index_head_dim", "kv_cache_dim"),
        host_class="DSATokenToKVPool",
        host_fact="dsa_pool",
        fixture=f"{_FIXTURES}:DSAFixture",
        reference=".dsa_pool:ReferenceDSAPool",
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
    for field in ("base", "fixture", "reference"):
        place = getattr(row, field)
        if not _PLACE.fullmatch(place.removeprefix(".") if field == "reference" else place):
            yield f"{field} is {place!r}, no `package.module:name`"
    if not (row.host_class.isidentifier() or _PLACE.fullmatch(row.host_class)):
        yield f"host_class is {row.host_class!r}, neither a class's name nor `package.module:name`"
