"""A vendor's `DiffusionAttention` as an attention backend of the diffusion runtime."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.attention.diffusion import DiffusionAttention
from sglang_platform.core.errors import HostError
from sglang_platform.core.sglang.rebase import rebase

__all__ = ["place_of_backend"]

_backends: dict[str, type] = {}


def place_of_backend(cls: type[DiffusionAttention]) -> str:
    """The path of the backend that wraps `cls`, which SGLang resolves with `pkgutil.resolve_name`."""
    name = f"{cls.__module__}.{cls.__qualname__}".replace(".", "__")
    if name not in _backends:
        _backends[name] = _backend_for(cls)
    return f"{__name__}:{name}"


def __getattr__(name: str) -> Any:
    try:
        return _backends[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def _backend_for(cls: type[DiffusionAttention]) -> type:
    from sglang.multimodal_gen.runtime.layers.attention.backends.attention_backend import (
        AttentionBackend,
        AttentionImpl,
    )
    from sglang.multimodal_gen.runtime.platforms.interface import AttentionBackendEnum

    member = AttentionBackendEnum.__members__.get(cls.host_backend)
    if member is None:
        raise HostError(
            f"{cls.__module__}.{cls.__qualname__}.host_backend is {cls.host_backend!r}, no backend of the host",
            why=f"the host knows {', '.join(AttentionBackendEnum.__members__)}",
            fix="name the one whose result this attention gives; TORCH_SDPA for exact dense attention",
        )
    impl = rebase(cls, DiffusionAttention, AttentionImpl)

    class Backend(AttentionBackend):  # type: ignore[misc]
        """SGLang's descriptor of `cls`; never instantiated."""

        @staticmethod
        def get_enum() -> Any:
            return member

        @staticmethod
        def get_impl_cls() -> type:
            return impl

    Backend.__name__ = Backend.__qualname__ = f"{cls.__name__}Backend"
    return Backend
