"""Level 7: the proof that the platform's own parts serve, and not the host's fallbacks."""

from __future__ import annotations

from typing import Any

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.host.session import session
from sglang_platform.conformance.host.witness import COUNTED, parts_in_use
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import engine
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_WORKED = {
    "kv_pool": ("set_kv_buffer", "set_mla_kv_buffer"),
    "allocator": ("alloc_extend", "alloc_decode"),
    "attention": COUNTED["attention"],
    "graph_runner": COUNTED["graph_runner"],
}
_FIX = {
    "kv_pool": "answer with the pool's class from get_kv_pool_cls(kind=...): older names are not asked",
    "allocator": "answer with the allocator's class from get_paged_allocator_cls()",
    "attention": "assign the backend's name to server_args.attention_backend in apply_server_args_defaults(): on "
    "device type cpu SGLang fills in its own before it asks get_default_attention_backend(); and register it "
    "in init_backend(), or return it from get_attention_backends()",
    "graph_runner": "say graph_capture=True, answer with the class from get_graph_runner_cls(), and on device type cpu "
    "set server_args.enable_torch_compile: there SGLang asks for a runner only under that flag",
}


@check(
    level=Level.HOST,
    requires=[engine()],
    hosts=("sglang",),
    seconds=400,
    fix="bring the part in where SGLang asks for it; see the message for which",
)
def platforms_parts_serve(subject: Subject) -> None:
    """The parts that the platform brings are the ones that the running engine uses, and each of them did work."""
    found = session(subject)
    running = found.running()
    (prompt,) = [[11, 12, 13, 14, 15] * 8]
    running.call("generate", input_ids=[prompt], max_new_tokens=8)
    counts = running.counters()
    (used, *_) = parts_in_use(found.report_dir)
    for part, brought in _brought(subject, found.page_size).items():
        if brought is None:
            continue
        expect(
            used[part] == brought,
            f"the platform brings {brought} as its {part.replace('_', ' ')}, and the engine uses {used[part]}",
            case={"part": part},
            fix=_FIX[part],
        )
        calls = {method: counts.get(f"witness.{part}.{method}", 0) for method in _WORKED[part]}
        expect(
            any(calls.values()),
            f"{brought} is the engine's {part.replace('_', ' ')}, and none of {', '.join(calls)} was called on it",
            case={"part": part},
        )


def _brought(subject: Subject, page_size: int) -> dict[str, str | None]:
    """Part to `module.Class`, for the parts that the platform brings and that this engine needs."""
    platform = subject.platform
    attention: Any = subject.parts.attention_factory()
    graphs = bool(platform.capabilities.graph_capture) and platform.is_out_of_tree()
    return {
        "kv_pool": _name(subject.platform.get_kv_pool_cls(kind="mha"))
        if "mha" in subject.declares.kv_kinds
        else None,
        "allocator": _name(subject.platform.get_paged_allocator_cls()) if page_size > 1 else None,
        "attention": _name(attention) if isinstance(attention, type) else None,
        "graph_runner": _name(platform.get_graph_runner_cls()) if graphs else None,
    }


def _name(cls: type | None) -> str | None:
    return None if cls is None else f"{cls.__module__}.{cls.__qualname__}"
