"""What the suite needs for some of its checks only: the extra that brings it, and what is said where it is missing."""

from __future__ import annotations

from importlib.util import find_spec

from sglang_platform.core.errors import PlatformError

__all__ = ["EXTRAS", "MissingExtra", "missing", "require"]

EXTRAS = {
    "sglang": ("sglang", "openai", "safetensors", "tokenizers", "transformers"),
    "kernels": ("triton",),
    "diffusion": ("diffusers", "PIL"),
    "parallel": ("xdist",),
}
"""Extra of `sglang-platform-conformance` -> the modules that it brings."""


class MissingExtra(PlatformError):
    """What was asked for needs modules that are not installed."""


def missing(extra: str) -> str | None:
    """Which modules of an extra are not installed, and how they come; None where all are there."""
    absent = [name for name in EXTRAS[extra] if find_spec(name) is None]
    return f"not installed: {', '.join(absent)} ({_install(extra)})" if absent else None


def require(extra: str) -> None:
    """Raise MissingExtra unless all modules of the extra are installed."""
    why = missing(extra)
    if why is not None:
        raise MissingExtra(f"this needs the extra {extra!r} of the suite", why=why, fix=_install(extra))


def _install(extra: str) -> str:
    return f"pip install 'sglang-platform-conformance[{extra}]'"
