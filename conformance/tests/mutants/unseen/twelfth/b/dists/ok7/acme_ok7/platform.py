"""Healthy. Other containers and more names: declarations as a mapping, a frozen set, a view and a property; attention under
two names in a read-only mapping, one a class and one a function; state kernels in a mapping that imports them on access and
holds two of five; a product name that differs from the device's and the plugin's; a hook on a target that no release has,
not required, with the reason.

Permitted: the contract's types are Collection and Mapping; docs/hooks.md `required=False`, `without=`. A distribution whose
activate() does more (a probe of a file, a refusal with a fix, the decorator with parentheses) is in dists/ok7.
level: contract
"""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from sglang_platform.conformance.reference.platform import NAME, ReferencePlatform
from sglang_platform.core import HookRegistry, HookType


class _OnAccess(Mapping[str, Any]):
    _names = ("short_convolution", "gated_rms_norm")

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS

        return PORTABLE_STATE_KERNELS[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _made(model_runner: Any) -> Any:
    from sglang_platform.conformance.reference.attention import ReferenceAttention

    return ReferenceAttention(model_runner)


def _watch(result: Any, *args: Any, **kwargs: Any) -> None:
    return None


class Platform(ReferencePlatform):
    device_name = "acme_9000"
    supported_page_sizes = {1: "tokens", 4: "small pages", 16: "pages"}
    supported_kv_dtypes = frozenset(ReferencePlatform.supported_kv_dtypes)
    supported_kv_kinds = dict.fromkeys(ReferencePlatform.supported_kv_kinds).keys()

    @property
    def attention_features(self) -> Collection[str]:  # type: ignore[override]
        return frozenset(ReferencePlatform.attention_features)

    def get_device_name(self, device_id: int = 0) -> str:
        return f"Acme Tensor Engine 9000 (rev. {device_id})"

    def get_attention_backends(self) -> Mapping[str, Any]:  # type: ignore[override]
        from sglang_platform.conformance.reference.attention import ReferenceAttention

        return MappingProxyType({"ok7_by_function": _made, NAME: ReferenceAttention})

    def get_state_kernels(self) -> Mapping[str, Any]:
        return _OnAccess()

    def init_backend(self) -> None:
        super().init_backend()
        HookRegistry.register(
            "sglang.srt.utils.common:acme_power_profile",
            _watch,
            HookType.AFTER,
            required=False,
            without="the card's power profile is not followed; nothing else changes",
        )
