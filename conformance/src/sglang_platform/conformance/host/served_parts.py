"""Who served each part of an engine: the platform, core, SGLang or nobody; wrong is a part that the platform declares
and that did not serve.

`describe` runs in the scheduler, as a part of the witness; `judge` reads what it wrote, and the counters.
Names as of SGLang 0.5.23.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.ops.fused_op import FusedOp
from sglang_platform.core.sglang.pools.kinds import host_pool
from sglang_platform.core.sglang.served_model import resolved

__all__ = ["PARTS", "ServedPart", "describe", "judge", "leaf", "verdict"]

PARTS = (
    "device",
    "KV pool",
    "paged allocator",
    "attention",
    "fused ops",
    "graph runner",
    "sampling",
    "communicator",
    "quantisation",
)
_OWN_COUNTS = {
    "KV pool": ("kv_pool.stores",),
    "paged allocator": ("paged_allocator.extends", "paged_allocator.decodes"),
    "attention": ("attention.extends", "attention.decodes"),
    "fused ops": ("fused_ops.calls",),
    "graph runner": ("graph.replays",),
}
_WITNESSED = {
    "KV pool": ("kv_pool.set_kv_buffer", "kv_pool.set_mla_kv_buffer"),
    "paged allocator": ("allocator.alloc", "allocator.alloc_extend", "allocator.alloc_decode"),
    "attention": ("attention.forward_extend", "attention.forward_decode"),
    "graph runner": ("graph_runner.execute", "graph_runner.replay"),
}
_HOSTS_COUNT = {
    "KV pool": "host.kv_pool.stores",
    "paged allocator": "host.paged_allocator.calls",
    "attention": "host.attention.calls",
    "graph runner": "host.graph.replays",
}
_LEAVES = ("full_kv_pool", "full_attn_allocator", "full_attn_backend", "decode_backend")


class ServedPart(NamedTuple):
    """One row of the table. `wrong` says what is declared and did not serve; empty if all is right."""

    part: str
    server: str
    name: str
    calls: int | None
    wrong: str = ""


def leaf(part: Any) -> Any:
    """The part itself under SGLang's composites: sliding windows, layers with states, two attention backends."""
    for attribute in _LEAVES:
        part = getattr(part, attribute, part)
    return part


def describe(platform: Any, scheduler: Any) -> dict[str, Any]:
    """`used`: part to the name of what is in place, or None. `declared`: part to the names that the platform answers,
    for this model and these arguments."""
    runner = scheduler.tp_worker.model_runner
    pool, allocator = leaf(runner.token_to_kv_pool), leaf(scheduler.token_to_kv_pool_allocator)
    backend, graphs = leaf(runner.attn_backend), runner.decode_cuda_graph_runner
    weight = next(runner.model.parameters(), None)
    settings = resolved(runner.server_args)
    used = {
        "device": None if weight is None else weight.device.type,
        "KV pool": _name(pool),
        "paged allocator": _name(allocator),
        "attention": _name(backend),
        "graph runner": _name(graphs),
        "sampling": getattr(settings, "sampling_backend", None),
        "communicator": None,
        "quantisation": runner.model_config.quantization,
    }
    declared: dict[str, list[str]] = {
        "device": [platform.device_type],
        "KV pool": _pool(platform, pool),
        "attention": _attention(platform),
        "fused ops": [entry.name for entry in FusedOp.registered(platform.get_dispatch_key_name())],
    }
    if settings.page_size > 1:
        declared["paged allocator"] = _names(platform.get_paged_allocator_cls)
    if platform.capabilities.graph_capture:
        declared["graph runner"] = _names(platform.get_graph_runner_cls)
    if scheduler.tp_group.world_size > 1:
        used["communicator"] = _name(getattr(scheduler.tp_group, "device_communicator", None))
        declared["communicator"] = _names(platform.get_communicator_class)
    if used["quantisation"]:
        declared["quantisation"] = _names(lambda: platform.get_quantization_config(used["quantisation"]))
    return {"used": used, "declared": declared}


def judge(
    description: Mapping[str, Any], counts: Mapping[str, int], platform: str, *, graphs: bool
) -> list[ServedPart]:
    """A row for each part. `counts`: the scheduler's counters. `platform`: its entry point's name, under which it
    counts. `graphs`: whether the operator wants them."""
    used, declared = description["used"], description["declared"]
    return [
        _row(part, used.get(part), declared.get(part, ()), counts, platform, graphs=graphs) for part in PARTS
    ]


def verdict(rows: Iterable[ServedPart], platform: str) -> str:
    """One sentence on all rows; it begins with "not proved" if one is wrong."""
    rows = list(rows)
    wrong = [row.part for row in rows if row.wrong]
    if wrong:
        return f"not proved: the platform {platform!r} declares what did not serve: {', '.join(wrong)}"
    by = {server: [row.part for row in rows if row.server == server] for server in _SERVERS}
    text = f"proved: all that the platform {platform!r} declares served: {', '.join(by['the platform'])}"
    for server in ("core", "SGLang"):
        text += f"; {server} served {', '.join(by[server])}" if by[server] else ""
    return text


_SERVERS = ("the platform", "core", "SGLang", "nobody")


def _row(
    part: str,
    used: str | None,
    declared: Iterable[str],
    counts: Mapping[str, int],
    platform: str,
    *,
    graphs: bool,
) -> ServedPart:
    declared = list(declared)
    own = sum(counts.get(f"{platform}.{name}", 0) for name in _OWN_COUNTS.get(part, ()))
    if part == "device":
        right = used in declared
        wrong = "" if right else f"the weights lie on {used}, and device_type is {declared[0]}"
        return ServedPart(part, "the platform" if right else "SGLang", used or "-", None, wrong)
    if part == "fused ops":
        return _ops(declared, own or counts.get("witness.platforms_ops", 0), counts)
    if part == "graph runner" and not graphs:
        return ServedPart(part, "nobody", "graphs are off", None)
    if part not in _WITNESSED:
        server = _server(used, declared)
        wrong = _not_used(declared, used) if declared and server == "SGLang" else ""
        return ServedPart(part, server, _short(used), None, wrong)
    witnessed = sum(counts.get(f"witness.{name}", 0) for name in _WITNESSED[part])
    calls, hosts = own or witnessed, counts.get(_HOSTS_COUNT[part], 0)
    server = "the platform" if own else _server(used, declared)
    if not calls:
        server = "nobody"
    wrong = ""
    if declared and not own and not (calls and used in declared):
        wrong = _not_used(declared, used if calls else None)
    elif declared and hosts and server != "core":  # of core's pools, SGLang's methods store the rows
        wrong = f"SGLang's own served {hosts} calls beside {_short(declared[0])}"
    return ServedPart(part, server, _short(used), calls or None, wrong)


def _ops(declared: list[str], own: int, counts: Mapping[str, int]) -> ServedPart:
    prefix = "witness.hosts_ops."
    hosts = sum(count for name, count in counts.items() if name.partition(prefix)[2])
    wrong = "" if own or not declared else f"{len(declared)} forwards are registered, and none was called"
    if own:
        return ServedPart("fused ops", "the platform", f"and SGLang's for {hosts}" if hosts else "-", own)
    return ServedPart("fused ops", "SGLang" if hosts else "nobody", "-", hosts or None, wrong)


def _server(used: str | None, declared: list[str]) -> str:
    if used is None:
        return "nobody"
    package = used.split(".")
    if package[:2] == ["sglang_platform", "core"]:
        return "core"
    if used in declared:
        return "the platform"
    return "SGLang" if package[0] == "sglang" or len(package) == 1 else "the platform"


def _not_used(declared: list[str], used: str | None) -> str:
    return f"{_short(declared[0])} is declared, and {_short(used) if used else 'nobody'} served"


def _short(name: str | None) -> str:
    return "-" if name is None else name.rpartition(".")[2]


def _pool(platform: Any, pool: Any) -> list[str]:
    """For the kind of the pool in use; a kind that is declared without a class counts as declared."""
    for kind in ("dsa", "mla", "mha"):
        if isinstance(pool, host_pool(kind)):
            named = _names(lambda kind=kind: platform.get_kv_pool_cls(kind=kind))
            return named or [f"supported_kv_kinds {kind}"] * (kind in platform.supported_kv_kinds)
    return [name for kind in KINDS for name in _names(lambda kind=kind: platform.get_kv_pool_cls(kind=kind))]


def _attention(platform: Any) -> list[str]:
    """Nothing where the platform leaves the choice to SGLang (`get_default_attention_backend` refuses)."""
    brought = getattr(platform, "get_attention_backends", dict)()
    try:
        platform.get_default_attention_backend()
    except NotImplementedError:
        return []
    return [_class_name(one) for one in brought.values()]


def _names(answer: Callable[[], Any]) -> list[str]:
    cls = None
    with contextlib.suppress(NotImplementedError, ValueError):  # a refusal, with its reason
        cls = answer()
    return [] if cls is None else [_class_name(cls)]


def _class_name(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _name(part: Any) -> str | None:
    return None if part is None else _class_name(type(part))
