"""Everything that SGLang calls on a part has a property in the suite, or a reason why it has none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import tomllib

sys.path.insert(0, str(Path(__file__).parent))

from part_calls import RECEIVERS, calls_on_parts

from sglang_platform.conformance.check import registered
from sglang_platform.core.attention.backend import AttentionBackend
from sglang_platform.core.contract.members import public_names
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.distributed.communicator import COLLECTIVES
from sglang_platform.core.graph.full import FullGraphBackend
from sglang_platform.core.graph.runner import GraphRunner
from sglang_platform.core.memory.allocator import TokenToKVPoolAllocator
from sglang_platform.core.memory.dsa import DSATokenToKVPool
from sglang_platform.core.memory.mha import MHATokenToKVPool
from sglang_platform.core.memory.paged import PagedTokenToKVPoolAllocator
from sglang_platform.core.memory.req_to_token import ReqToTokenPool
from sglang_platform.devtools.source.opening import open_host

TABLE: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("part_calls.toml").read_text()
)
ANSWERED = {call: one for part in TABLE.values() for one, calls in part.items() for call in calls}


def test_every_answer_is_a_check_or_a_reason() -> None:
    assert set(TABLE["checks"]) <= set(registered())
    assert all(reason.count(" ") > 3 for reason in TABLE["reasons"])
    calls = [call for part in TABLE.values() for several in part.values() for call in several]
    assert len(calls) == len(set(calls))


@pytest.mark.host
def test_every_call_of_the_installed_release_has_a_property() -> None:
    found = calls_on_parts(open_host("installed", {"sglang"}), _names())
    without = {call: sorted(modules)[:3] for call, modules in found.items() if call not in ANSWERED}
    assert not without, "map each to a check or a reason in part_calls.toml"
    assert sorted(set(ANSWERED) - set(found)) == [], "SGLang calls these no more"
    assert len(found) > 120


def test_each_way_of_calling_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "sglang" / "srt"
    source.mkdir(parents=True)
    (source.parent / "__init__.py").touch()
    (source / "__init__.py").touch()
    (source / "calls.py").write_text(
        "def f(self, kv_pool, other):\n"
        "    self.token_to_kv_pool.get_key_buffer(0)\n"
        "    getattr(kv_pool, 'move_kv_cache')(1, 2)\n"
        "    hasattr(get_token_to_kv_pool(), 'get_kv_buffer')\n"
        "    self.model_runner.attn_backend.forward()\n"
        "    other.get_value_buffer(0), self.kv_pool.unknown()\n"
    )
    names = {part: frozenset[str]() for part in RECEIVERS}
    names["kv pool"] = frozenset({"get_key_buffer", "move_kv_cache", "get_kv_buffer", "get_value_buffer"})
    names["attention backend"] = frozenset({"forward"})
    assert calls_on_parts(open_host(str(tmp_path), {"sglang"}), names) == {
        call: {"sglang.srt.calls"}
        for call in (
            "kv pool.get_key_buffer",
            "kv pool.move_kv_cache",
            "kv pool.get_kv_buffer",
            "attention backend.forward",
        )
    }


def _names() -> dict[str, frozenset[str]]:
    """What a part of each kind may have: the methods of core's base classes and of SGLang's."""
    from sglang.srt.layers.attention.base_attn_backend import AttentionBackend as HostBackend
    from sglang.srt.mem_cache import allocator, memory_pool
    from sglang.srt.model_executor.runner_backend.base_cuda_graph_backend import BaseCudaGraphBackend

    return {
        "kv pool": _methods(
            MHATokenToKVPool, DSATokenToKVPool, memory_pool.MHATokenToKVPool, memory_pool.DSATokenToKVPool
        ),
        "allocator": _methods(
            TokenToKVPoolAllocator,
            PagedTokenToKVPoolAllocator,
            allocator.TokenToKVPoolAllocator,
            allocator.PagedTokenToKVPoolAllocator,
        ),
        "request table": _methods(ReqToTokenPool, memory_pool.ReqToTokenPool),
        "attention backend": _methods(AttentionBackend, HostBackend),
        "graph runner": _methods(GraphRunner),
        "full graph backend": _methods(FullGraphBackend, BaseCudaGraphBackend),
        "communicator": frozenset(COLLECTIVES),
        "platform": public_names(SRTPlatform),
    }


def _methods(*classes: Any) -> frozenset[str]:
    return frozenset(
        name
        for cls in classes
        for name in dir(cls)
        if not name.startswith("_") and callable(getattr(cls, name))
    )
