"""How SGLang tells parts apart beside their base classes, and whether a part of the CUDA and ROCm packages fits.

SGLang compares exact classes, and asks for names that an object may or may not have. Each is a way in which a part of
ours could lose a feature without a word: a subclass is not the class, and a name that it lacks means "no".
`python -m tools.whose_parts.asked` prints every such question of the installed release.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sglang_platform.devtools.source.opening import open_host
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["COMPARED", "OBJECTS", "UNDECIDED", "answer", "protocols"]

_PART = re.compile(r"(pool|kvcache|kv_cache|allocator|attn_backend|graph_runner)$")
_CLASS = re.compile(r"(Pool|Allocator|AttnBackend|AttentionBackend|GraphRunner)\w*$")
_ELSEWHERE = ("sglang.srt.hardware_backend.", "sglang.multimodal_gen.", "sglang.srt.mem_cache.storage.")
"""Other vendors' parts, the other runtime, and storages, which see pools in host memory only."""

UNDECIDED = ""
"""The answer to a comparison that nobody has looked at."""

_HYBRID = "fits: a hybrid model's pools are of SGLang's own class, ours is not answered there"
_CONFIGURATOR = (
    "fits: the class that SGLang goes on to compare is its own where the launch needs it, else ours by design"
)
_BEFORE = "fits: that release asks a CUDA or ROCm platform for no pool, so its pools are its own"
_OF_ITSELF = "fits: SGLang's own asks it of itself, and none of ours derives from it"
_GRAPHS = "fits: None leaves SGLang's runner, which is what both packages answer unless theirs is asked for"
_NONE = "fits: neither package brings one"

COMPARED: dict[str, str] = {
    "layers.attention.flashinfer_backend: self.__class__ is FlashInferAttnBackend": _OF_ITSELF,
    "layers.attention.qwen_sparse_attn_backend: type(pool) in (HybridLinearKVPool, QSATokenToKVPool)": _HYBRID,
    "layers.attention.qwen_sparse_attn_backend: type(pool) is MHATokenToKVPool": _HYBRID,
    "layers.attention.qwen_sparse_attn_backend: type(storage) is MHATokenToKVPool": _HYBRID,
    "mem_cache.hybrid_cache.hybrid_pool_assembler: type(draft_pool) is not MHATokenToKVPool": (
        "fits: a draft's pool is of SGLang's own class, ours is not answered there"
    ),
    "mem_cache.hybrid_cache.linker_pool_assembler: type(full_kv_pool) is not MLATokenToKVPool": _HYBRID,
    "mem_cache.hybrid_cache.linker_pool_assembler: type(kvcache) is not HybridLinearKVPool": _HYBRID,
    "mem_cache.kv_cache_configurator: mla_pool_class is MLATokenToKVPool": _CONFIGURATOR,
    "mem_cache.kv_cache_configurator: pool_cls is MHATokenToKVPool": _CONFIGURATOR,
    "mem_cache.pool_host.common: type(allocator) is HostTensorAllocator": _NONE,
    "mem_cache.pool_host.group: type(pool) is MHATokenToKVPool": _BEFORE,
    "model_executor.model_runner_components.cuda_graph_setup: GraphRunnerCls is None": _GRAPHS,
    "model_executor.model_runner_kv_cache_mixin: self.token_to_kv_pool_allocator.__class__ == "
    "SWATokenToKVPoolAllocator": "fits: the allocator of two pools is SGLang's own, built from two of ours",
    "model_executor.model_runner_kv_cache_mixin: swa_allocator.__class__ == SWATokenToKVPoolAllocator": (
        "fits: the allocator of two pools is SGLang's own, built from two of ours"
    ),
    "model_executor.runner.decode_cuda_graph_runner: type(self) is DecodeCudaGraphRunner": _OF_ITSELF,
    "speculative.eagle_worker_v2: TargetGraphRunnerCls is not None": _GRAPHS,
    "models.deepseek_v2: indexer_cls is IndexerKPool": "fits: an indexer, which neither package brings",
}
"""Every comparison of an exact class in SGLang 0.5.11 to 0.5.23. One that is not here is undecided."""

OBJECTS: tuple[tuple[str, str, str], ...] = (
    (
        r"req_to_token_pool|req_pool|mamba|compress_|c128",
        "request tables, pools of states and of compressed keys",
        _NONE,
    ),
    (
        r"host_pool|self\.allocator\b|HybridLinearKVPool",
        "pools in host memory, and the allocators of their bytes",
        _NONE,
    ),
    (
        r"attn_backend",
        "attention backends",
        "fits: SGLang's by the rule; one of ours that is asked for lacks the name, and SGLang takes the general way or "
        "refuses",
    ),
    (
        r"graph_runner",
        "graph runners",
        "fits: SGLang's by the rule; one of ours that is asked for answers by defaults",
    ),
    (
        r"pool|kvcache|kv_cache|allocator",
        "KV pools and paged allocators",
        "fits: a name is in a class of ours exactly where it is in SGLang's own, from which ours derives",
    ),
)
"""Of names that may be missing: a pattern of the object that is asked, what it is, and whether ours fits. The first
pattern that is found counts."""


def answer(question: str) -> str:
    """Whether our parts fit a question of `protocols()`; UNDECIDED for a comparison that is not in COMPARED."""
    node = ast.parse(question.split(": ", 1)[1], mode="eval").body
    if isinstance(node, ast.Compare):
        return COMPARED.get(question, UNDECIDED)
    assert isinstance(node, ast.Call)
    asked = ast.unparse(node.args[0])
    return next((fits for pattern, _, fits in OBJECTS if re.search(pattern, asked)), UNDECIDED)


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
