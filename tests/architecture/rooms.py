"""The rooms of the house and their order: the one place that says what may import what.

A room is a folder or file directly below `sglang_platform/core/`, or a whole distribution beside core.
"""

from __future__ import annotations

from collections.abc import Iterable

from import_graph import Import

__all__ = ["BESIDE_CORE", "CORE_ROOMS", "PUBLIC_NAMES", "room_of", "wrong_arrows"]

CORE_ROOMS = {
    "correction": "what of a plugin's code an error belongs to",
    "errors": "the errors, in one message format",
    "counters": "what a part counts, read while a process serves",
    "spelling": "the nearest existing name",
    "host": "what any host offers; imports none",
    "contract": "what a vendor writes: device, platform, capabilities, drift",
    "installed": "modules, files and metadata that are installed, found without an import",
    "discovery": "metadata, decision, platform",
    "hooks": "changing a function of the host, with a report",
    "registries": "parts that belong to a model",
    "memory": "KV pools and allocators: base classes",
    "attention": "attention backends: base classes",
    "graph": "graph runners and pieces: base classes",
    "ops": "fused ops",
    "distributed": "communicators",
    "portable": "parts that run before a vendor has kernels",
    "plugins": "general plugins, loaded by our rules",
    "doctor": "findings about an installation, without reading sources",
    "sglang": "the adapter: the one room that imports SGLang",
    "cli": "the command",
}
"""The rooms of core with what each is for, from the ground up: a room imports rooms above it in this table only."""

PUBLIC_NAMES = "core"
"""`core/__init__.py`, the lazy table of public names. It names nearly every room, so it stands above all of them:
a file of core imports from the module where a name lives, never from this table. The table itself imports nothing at
run time; what it names under `TYPE_CHECKING` is held to the order like all else, and can close no circle."""

BESIDE_CORE = ("devtools", "example_oot", "cuda", "rocm", "conformance")
"""Each stands on core and on no other of them; the suite also on devtools, which reads sources for it."""


def room_of(module: str) -> str:
    """`sglang_platform.core.hooks.call.kinds` -> `hooks`; `sglang_platform.cuda.device` -> `cuda`."""
    _, distribution, *inside = module.split(".")
    return inside[0] if distribution == "core" and inside else distribution


def wrong_arrows(imports: Iterable[Import]) -> list[str]:
    """The imports that go up or sideways, or that touch a room without a place in the order."""
    height = {room: number for number, room in enumerate([*CORE_ROOMS, PUBLIC_NAMES])}
    wrong = []
    for one in imports:
        above, below = room_of(one.importer), room_of(one.imported)
        if above == below:
            continue
        unknown = [room for room in (above, below) if room not in height and room not in BESIDE_CORE]
        if unknown:
            wrong.append(f"{one}: the room {unknown[0]!r} has no place in the order")
        elif below in BESIDE_CORE and (above, below) != ("conformance", "devtools"):
            wrong.append(f"{one}: {below} is imported by nobody")
        elif above in height and height[below] > height[above]:
            wrong.append(f"{one}: {below} stands above {above}")
    return wrong
