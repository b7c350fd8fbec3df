"""Of the names that SGLang asks for with a default, which are in the platform's classes and which in SGLang's own."""

import ast
import functools
import inspect
import sys
from pathlib import Path

import sglang.srt.mem_cache.memory_pool as pools
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.platforms import current_platform

asked = [
    ast.parse(line.split(": ", 1)[1], mode="eval").body for line in Path(sys.argv[1]).read_text().splitlines()
]
names = sorted(
    {
        call.args[1].value
        for call in asked
        if isinstance(call, ast.Call) and isinstance(call.args[1], ast.Constant)
    }
)
assert len(names) > 80, names
classes = [
    (current_platform.get_kv_pool_cls(kind="mha"), pools.MHATokenToKVPool),
    (current_platform.get_kv_pool_cls(kind="mla"), pools.MLATokenToKVPool),
    (current_platform.get_kv_pool_cls(kind="dsa"), pools.DSATokenToKVPool),
    (current_platform.get_paged_allocator_cls(), PagedTokenToKVPoolAllocator),
]


@functools.cache
def set_by_methods(cls: type) -> str:
    """The source of the host's classes below a class."""
    below = [base for base in cls.__mro__ if base.__module__.startswith("sglang.")]
    return "".join(map(inspect.getsource, below))


def has(cls: type, name: str) -> bool:
    return hasattr(cls, name) or f"self.{name} = " in set_by_methods(cls)


wrong = []
for ours, theirs in classes:
    assert issubclass(ours, theirs), (ours, theirs)
    assert ours is not theirs
    wrong += [f"{ours.__name__}.{name}" for name in names if has(ours, name) != has(theirs, name)]
assert not wrong, wrong

# The layout of the indexer's keys belongs to the kernels that SGLang has chosen (preshuffled with AITER): whatever
# makes, reads, writes or describes them is SGLang's, in our class of the rows too.
ours, theirs = classes[2]
keys = [name for name in vars(theirs) if "index_k" in name] + [
    "get_state_buf_infos",
    "get_cpu_copy",
    "load_cpu_copy",
]
assert len(keys) > 8, keys
replaced = [name for name in keys if getattr(ours, name) is not getattr(theirs, name)]
assert not replaced, replaced
