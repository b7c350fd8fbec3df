"""What differs between the hosts: how the platform object is made, and what its parts are handed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sglang_platform.conformance.plugin import CheckedPlugin

if TYPE_CHECKING:
    import torch

__all__ = ["Parts", "on_device"]


class Parts(ABC):
    """The platform of one plugin in this process. `scratch` is a folder for what the suite writes."""

    def __init__(self, plugin: CheckedPlugin, scratch: Path) -> None:
        self.plugin, self.scratch = plugin, scratch

    @cached_property
    def platform(self) -> Any:
        """The process's platform object."""
        return self.make_platform()

    @property
    def device_argument(self) -> str:
        """What the host passes as `device`: the platform's device type."""
        return str(self.platform.device_type)

    @cached_property
    def device(self) -> torch.device:
        """Where the platform's tensors live."""
        import torch

        return torch.device(self.platform.get_device(0))

    def init_backend(self) -> None:
        """`init_backend()` of the platform, once in this process."""
        self._initialised  # noqa: B018 - asked for its effect

    @cached_property
    def _initialised(self) -> bool:
        self.platform.init_backend()
        return True

    @abstractmethod
    def make_platform(self) -> Any:
        """The platform object. Raises PlatformError, SystemExit or DeviceAbsent."""

    @abstractmethod
    def req_to_token_pool(self, size: int, max_context_len: int) -> Any:
        """The request table of this host: `req_to_token` int32 [size + 1, max_context_len] on the device."""

    @abstractmethod
    def allocator(
        self, size: int, page_size: int, *, pool: Any = None, need_sort: bool = False, dtype: Any = None
    ) -> Any:
        """The platform's paged allocator over `size` slots; the host's slot allocator where page_size is 1."""

    @abstractmethod
    def attention_factory(self, name: str | None = None) -> Callable[[Any], Any] | None:
        """What builds its attention backend `name` (by default its default one) from a model runner; None where the
        platform brings none."""

    @abstractmethod
    def model_runner(self, pool: Any, table: Any, **more: Any) -> Any:
        """The attributes of a model runner that parts may read: `token_to_kv_pool`, `req_to_token_pool`, `device`,
        `dtype`, `page_size`, `model_config`, `server_args`, and `more`."""

    @abstractmethod
    def attention_layer(self, **fields: Any) -> Any:
        """One attention layer's constants, as this host writes them: fields of core's `AttentionLayer`."""

    def linear_layer(
        self, inputs: int, outputs: int, dtype: torch.dtype, quantization: Any, *, bias: bool
    ) -> Any:
        """A linear layer [outputs, inputs], as this host makes it of a quantisation config or of None: its weights are
        still to be loaded. Only SGLang has such."""
        raise NotImplementedError("linear layers are SGLang's: there is none without it")

    linear_prefix = "model.layers.0.mlp.down_proj"
    """The name of that layer in its model."""

    @property
    @abstractmethod
    def encoder_only(self) -> Any:
        """The `attn_type` of a layer without a causal mask; its `value` is "encoder_only"."""

    @abstractmethod
    def pool_base(self, kind: str) -> type | None:
        """The class that pools of a kind derive from; None where this host has none of the kind."""

    @abstractmethod
    def forward_batch(self, mode: str, **fields: Any) -> Any:
        """One batch, as this host writes it. `mode`: "decode", "extend", "mixed" or "idle"; fields of
        `core.attention.batch.ForwardBatch`, whose tensors are moved to the device."""


def on_device(fields: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """The fields with their tensors on `device`, except those that the host keeps on the CPU (`*_cpu`)."""
    import torch

    return {
        name: value.to(device) if isinstance(value, torch.Tensor) and not name.endswith("_cpu") else value
        for name, value in fields.items()
    }
