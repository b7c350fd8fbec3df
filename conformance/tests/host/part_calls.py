"""What SGLang calls on the parts that a platform brings, read from its sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["calls_on_parts"]

RECEIVERS: Mapping[str, tuple[str, ...]] = {
    "kv pool": (
        "token_to_kv_pool",
        "kv_pool",
        "pool",
        "kvcache",
        "device_pool",
        "full_kv_pool",
        "mem_pool_device",
    ),
    "allocator": ("token_to_kv_pool_allocator", "allocator", "full_attn_allocator", "kv_allocator"),
    "request table": ("req_to_token_pool",),
    "attention backend": (
        "attn_backend",
        "full_attn_backend",
        "decode_backend",
        "prefill_backend",
        "backend",
    ),
    "graph runner": (
        "decode_cuda_graph_runner",
        "cuda_graph_runner",
        "graph_runner",
        "prefill_cuda_graph_runner",
    ),
    "full graph backend": ("backend",),
    "communicator": ("group", "tp_group", "pp_group", "device_communicator", "attn_tp_group", "cpu_group"),
    "platform": ("current_platform", "current_srt_platform"),
}
"""The last names of expressions that hold a part; `get_X()` and `resolve_X()` count as X."""


def calls_on_parts(host: SourceTree, names: Mapping[str, frozenset[str]]) -> dict[str, set[str]]:
    """`names`: what a part of each kind may have. Of those "part.name" with the modules of SGLang that ask for it."""
    found: dict[str, set[str]] = {}
    words = "|".join(sorted(frozenset().union(*names.values())))
    mentions = re.compile(rf"""(\.({words})\s*\()|(["']({words})["'])""".encode()).search
    for module_name in host.served():
        if ".test" in module_name or not module_name.startswith("sglang.srt."):
            continue
        module = host.module(module_name) if mentions(host.text(module_name)) else None
        for node in module.nodes if module is not None else ():
            for receiver, name in _asked(node):
                for part, receivers in RECEIVERS.items():
                    if receiver in receivers and name in names[part]:
                        found.setdefault(f"{part}.{name}", set()).add(module_name)
    return found


def _asked(node: ast.AST) -> Iterator[tuple[str, str]]:
    """(receiver, name) of a method that is called, or asked for by `getattr` and `hasattr`."""
    if not isinstance(node, ast.Call):
        return
    function = node.func
    if isinstance(function, ast.Attribute):
        yield _last(function.value), function.attr
    elif isinstance(function, ast.Name) and function.id in ("getattr", "hasattr") and len(node.args) > 1:
        name = node.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield _last(node.args[0]), name.value


def _last(node: ast.expr) -> str:
    """The last name of an expression, without a leading underscore, `get_` and `resolve_`."""
    if isinstance(node, ast.Call):
        node = node.func
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lstrip("_").removeprefix("get_").removeprefix("resolve_")
