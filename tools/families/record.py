"""The families of models that a page tells about, and the engines in which each is tried."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAMILIES", "VISION", "Family", "Point", "points"]

PAGE_SIZES = (1, 16, 64)

VISION = "qwen2_vl"
"""The architecture that is asked with pictures; the others are in `host.architectures`."""


@dataclass(frozen=True)
class Family:
    """One family: a small checkpoint of random weights, built as its configuration says."""

    title: str
    architecture: str
    asks: str
    """What it asks of a device beside the plain decoder."""


FAMILIES = (
    Family("Llama", "llama", "a plain decoder with grouped queries"),
    Family("Qwen3", "qwen3", "norms of each head's queries and keys"),
    Family("Qwen3-MoE", "qwen3_moe", "the same, and experts chosen by softmax"),
    Family(
        "DeepSeek-V3", "deepseek_v3", "latent attention, experts in groups chosen by sigmoid, shared experts"
    ),
    Family("Gemma-2", "gemma2_capped", "windows in every other layer, capped logits, norms times 1 + weight"),
    Family("Gemma-3", "gemma3", "five layers of a window to a full one, a rotary base for each kind"),
    Family("gpt-oss", "gpt_oss", "sinks, windows, YaRN, experts with biases and a clamped SwiGLU"),
    Family("GLM-4", "glm4", "half of each head turned, in pairs of neighbours; biases"),
    Family("Qwen2-VL", VISION, "pictures: a vision encoder, rotary positions in three axes"),
)


@dataclass(frozen=True)
class Point:
    """One engine."""

    family: Family
    page_size: int
    graphs: bool

    @property
    def name(self) -> str:
        return f"{self.family.architecture}-{self.page_size}-{'graphs' if self.graphs else 'eager'}"


def points() -> list[Point]:
    """Each family at each page size, graphs on and off in turn: every pair of family, page size and graphs occurs."""
    return [
        Point(family, page_size, graphs=(number + place) % 2 == 0)
        for number, family in enumerate(FAMILIES)
        for place, page_size in enumerate(PAGE_SIZES)
    ]
