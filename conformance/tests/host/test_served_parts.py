"""`generate` says who served each part, and calls wrong only what is declared and did not serve."""

from __future__ import annotations

from typing import Any

import pytest

from sglang_platform.conformance.host import witness
from sglang_platform.conformance.host.served_parts import PARTS, ServedPart, judge, verdict
from sglang_platform.core.counters import counter

HOSTS = {
    "device": "acme",
    "KV pool": "sglang.srt.mem_cache.memory_pool.MHATokenToKVPool",
    "paged allocator": "sglang.srt.mem_cache.allocator.paged.PagedTokenToKVPoolAllocator",
    "attention": "sglang.srt.layers.attention.torch_native_backend.TorchNativeAttnBackend",
    "graph runner": None,
    "sampling": "pytorch",
    "communicator": None,
    "quantisation": None,
}
COUNTS = {
    "witness.kv_pool.set_kv_buffer": 192,
    "witness.allocator.alloc_extend": 3,
    "witness.allocator.alloc_decode": 45,
    "witness.attention.forward_extend": 12,
    "witness.attention.forward_decode": 180,
    "witness.hosts_ops.RMSNorm": 432,
    "witness.hosts_ops.SiluAndMul": 192,
    "host.attention.calls": 192,
    "host.kv_pool.stores": 192,
    "host.paged_allocator.calls": 3,
}


def rows(
    used: dict[str, Any] | None = None,
    declared: dict[str, list[str]] | None = None,
    counts: dict[str, int] | None = None,
    *,
    graphs: bool = True,
) -> dict[str, ServedPart]:
    """The rows of an engine that SGLang's parts serve but for these changes."""
    description = {"used": {**HOSTS, **(used or {})}, "declared": {"device": ["acme"], **(declared or {})}}
    judged = judge(description, {**COUNTS, **(counts or {})}, "acme", graphs=graphs)
    assert [row.part for row in judged] == list(PARTS)
    return {row.part: row for row in judged}


LEFT = {
    "KV pool": ("SGLang", "MHATokenToKVPool", 192),
    "paged allocator": ("SGLang", "PagedTokenToKVPoolAllocator", 48),
    "attention": ("SGLang", "TorchNativeAttnBackend", 192),
    "fused ops": ("SGLang", "-", 624),
    "graph runner": ("nobody", "-", None),
    "sampling": ("SGLang", "pytorch", None),
    "communicator": ("nobody", "-", None),
    "quantisation": ("nobody", "-", None),
    "device": ("the platform", "acme", None),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_left_to_sglang_is_right(part: str) -> None:
    row = rows()[part]
    assert (row.server, row.name, row.calls) == LEFT[part]
    assert row.wrong == ""


def test_a_platform_without_parts_is_proved() -> None:
    text = verdict(rows().values(), "acme")
    assert text == (
        "proved: all that the platform 'acme' declares served: device; "
        "SGLang served KV pool, paged allocator, attention, fused ops, sampling"
    )


def test_sglangs_triton_attention_is_left_to_it() -> None:
    triton = "sglang.srt.layers.attention.triton_backend.TritonAttnBackend"
    row = rows({"attention": triton})["attention"]
    assert (row.server, row.name, row.wrong) == ("SGLang", "TritonAttnBackend", "")


def test_graphs_that_are_off_are_served_by_nobody_and_are_right() -> None:
    row = rows(declared={"graph runner": ["acme.graph.Runner"]}, graphs=False)["graph runner"]
    assert (row.server, row.name, row.wrong) == ("nobody", "graphs are off", "")


@pytest.mark.parametrize("counted", ["acme.fused_ops.calls", "witness.platforms_ops"])
def test_ops_that_are_partly_the_platforms_are_right(counted: str) -> None:
    """Whether or not its forwards count themselves."""
    row = rows(declared={"fused ops": ["RMSNorm"]}, counts={counted: 40})["fused ops"]
    assert (row.server, row.name, row.calls, row.wrong) == ("the platform", "and SGLang's for 624", 40, "")


def test_a_forward_that_leaves_the_call_is_not_counted() -> None:
    served = counter(witness.PLATFORMS_OPS)
    before = served.value
    serve = witness._or_else_counting(lambda x: x if x > 0 else NotImplemented, lambda x: "SGLang's")
    assert [serve(1), serve(-1), serve(2)] == [1, "SGLang's", 2]
    assert served.value - before == 2


def test_cores_portable_part_is_told_as_cores() -> None:
    row = rows({"paged allocator": "sglang_platform.core.memory.paged.PagedTokenToKVPoolAllocator"})[
        "paged allocator"
    ]
    assert (row.server, row.wrong) == ("core", "")


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("KV pool", "sglang_platform.core.memory.mha.MHATokenToKVPool"),
        ("attention", "sglang_platform.core.portable.torch.attention.TorchAttentionBackend"),
    ],
)
def test_cores_part_in_place_of_a_platforms_is_right(part: str, name: str) -> None:
    row = rows({part: name}, {part: [name]})[part]
    assert (row.server, row.wrong) == ("core", "")


def test_the_platforms_own_parts_serve() -> None:
    own = {"KV pool": "acme.Pool", "attention": "acme.Attention", "graph runner": "acme.Runner"}
    counts = {
        "acme.kv_pool.stores": 7,
        "acme.attention.extends": 3,
        "acme.graph.replays": 5,
        "host.attention.calls": 0,
        "host.kv_pool.stores": 0,
    }
    found = rows(own, {part: [name] for part, name in own.items()}, counts)
    assert {found[part].server for part in own} == {"the platform"}
    assert [row.wrong for row in found.values() if row.wrong] == []
    assert verdict(found.values(), "acme").startswith(
        "proved: all that the platform 'acme' declares served: device, KV pool, attention, graph runner"
    )


def test_a_part_written_on_sglangs_classes_is_the_platforms_by_its_calls() -> None:
    row = rows(
        {"attention": "acme.Attention"}, {"attention": ["acme.Attention"]}, {"host.attention.calls": 0}
    )["attention"]
    assert (row.server, row.calls, row.wrong) == ("the platform", 192, "")


WRONG = {
    "the declared pool is never made": (
        {}, {"KV pool": ["acme.Pool"]}, {}, "KV pool", "Pool is declared, and MHATokenToKVPool served",
    ),
    "a kind of pool is declared without a class": (
        {}, {"KV pool": ["supported_kv_kinds mha"]}, {}, "KV pool", "supported_kv_kinds mha is declared",
    ),
    "the declared allocator is never made": (
        {}, {"paged allocator": ["acme.Allocator"]}, {}, "paged allocator", "Allocator is declared",
    ),
    "attention is declared and SGLang's used": (
        {}, {"attention": ["acme.Attention"]}, {}, "attention",
        "Attention is declared, and TorchNativeAttnBackend served",
    ),
    "attention is in place and never called": (
        {"attention": "acme.Attention"}, {"attention": ["acme.Attention"]},
        {"witness.attention.forward_extend": 0, "witness.attention.forward_decode": 0}, "attention",
        "Attention is declared, and nobody served",
    ),
    "SGLang's attention serves some calls beside the platform's": (
        {"attention": "acme.Attention"}, {"attention": ["acme.Attention"]}, {"acme.attention.decodes": 3},
        "attention", "SGLang's own served 192 calls beside Attention",
    ),
    "the graph runner captures and replays nothing": (
        {"graph runner": "acme.Runner"}, {"graph runner": ["acme.Runner"]}, {"acme.graph.captures": 4},
        "graph runner", "Runner is declared, and nobody served",
    ),
    "SGLang turned graphs off": (
        {}, {"graph runner": ["acme.Runner"]}, {}, "graph runner", "Runner is declared, and nobody served",
    ),
    "forwards are registered and none is called": (
        {}, {"fused ops": ["RMSNorm", "SiluAndMul"]}, {}, "fused ops", "2 forwards are registered, and none was called",
    ),
    "another communicator carries the group": (
        {"communicator": "sglang.srt.distributed.Communicator"}, {"communicator": ["acme.Communicator"]}, {},
        "communicator", "Communicator is declared",
    ),
    "the weights lie on another device": (
        {"device": "cpu"}, {}, {}, "device", "the weights lie on cpu, and device_type is acme",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_declared_and_does_not_serve_is_wrong(case: str) -> None:
    used, declared, counts, part, says = WRONG[case]
    found = rows(used, declared, counts)
    assert [row.part for row in found.values() if row.wrong] == [part]
    assert says in found[part].wrong
    assert verdict(found.values(), "acme") == (
        f"not proved: the platform 'acme' declares what did not serve: {part}"
    )
