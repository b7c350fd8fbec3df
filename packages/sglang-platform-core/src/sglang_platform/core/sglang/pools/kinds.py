"""SGLang's own class for each kind of KV pool."""

from __future__ import annotations

from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.errors import HostError
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.versions import facts

__all__ = ["host_pool"]

_OURS = "sglang_platform.core.memory."


def host_pool(kind: str) -> type:
    """SGLang's pool class for a kind: the class in the kind's record, or the SGLang class with the name of the nearest
    core base class."""
    row = KINDS[kind]
    if row.host_class is not None:
        return load(row.host_class)  # type: ignore[no-any-return]
    name = next((cls.__name__ for cls in load(row.base).__mro__ if cls.__module__.startswith(_OURS)), None)
    if name is None:
        raise HostError(
            f"SGLang has no pool class for the kind {kind!r}",
            why=f"its base class {row.base} derives from none of sglang_platform.core.memory",
            fix="name SGLang's class in the kind's record: host_class",
        )
    older = {"DSATokenToKVPool": facts().dsa_pool}
    return load(f"sglang.srt.mem_cache.memory_pool:{older.get(name, name)}")  # type: ignore[no-any-return]
