"""What SGLang asks of pools, allocators, attention backends and graph runners beside their base classes, read from its
source: comparisons of the exact class, and names that an object may or may not have.

Each is a way in which a part of ours could lose a feature without a word: a subclass is not the class, and a name that
ours lacks means "no". `python host_protocols.py > host_protocols.txt` writes the list of the installed release anew.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sglang_platform.core.source.opening import open_host
from sglang_platform.core.source.tree import SourceTree

__all__ = ["protocols"]

_PART = re.compile(r"(pool|kvcache|kv_cache|allocator|attn_backend|graph_runner)$")
_CLASS = re.compile(r"(Pool|Allocator|AttnBackend|AttentionBackend|GraphRunner)\w*$")
_ELSEWHERE = ("sglang.srt.hardware_backend.", "sglang.multimodal_gen.", "sglang.srt.mem_cache.storage.")
"""Other vendors' parts, the other runtime, and storages, which see pools in host memory only."""


def protocols(host: SourceTree) -> list[str]:
    """One line for each, `module: expression`, without the package's name and without doubles."""
    found = set()
    for name in host.served():
        module = (
            None if name.startswith(_ELSEWHERE) or not name.startswith("sglang.srt.") else host.module(name)
        )
        if module is not None:
            short = name.removeprefix("sglang.srt.")
            found |= {f"{short}: {asked}" for node in ast.walk(module.tree) for asked in _asked(node)}
    return sorted(found)


def _asked(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        sides = (node.left, node.comparators[0])
        exact = any(_is_type_of_a_part(side) for side in sides)
        a_class = isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) and any(
            isinstance(side, ast.Name) and _CLASS.search(side.id) for side in sides
        )
        if exact or a_class:
            yield ast.unparse(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) in (2, 3):
        optional = node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3)
        if optional and _PART.search(_last(node.args[0])):
            yield ast.unparse(node)


def _is_type_of_a_part(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "type"
        and len(node.args) == 1
        and bool(_PART.search(_last(node.args[0])))
    )


def _last(node: ast.expr) -> str:
    """The last name of `a.b.c`, of `a.b()`; empty for what has none."""
    if isinstance(node, ast.Call):
        return _last(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


if __name__ == "__main__":
    print("\n".join(protocols(open_host("installed", {"sglang"}))))
