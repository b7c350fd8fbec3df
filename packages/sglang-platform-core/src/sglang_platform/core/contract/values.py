"""Whether the plain values a platform declares are values that the contract can use."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from sglang_platform.core.contract.attention_features import FEATURES
from sglang_platform.core.contract.pool_kinds import KINDS, PLACE
from sglang_platform.core.contract.types import PlatformEnum
from sglang_platform.core.spelling import nearest

__all__ = ["value_problem"]

# torch's parser. It reads capitals too, but gives every device a lower-case name.
_DEVICE_TYPE = re.compile("[a-z_]+")


def value_problem(name: str, value: Any) -> str | None:
    """Why `value` cannot be the contract's attribute `name`; None where it can."""
    rule = _RULES.get(name)
    return rule(value) if rule is not None else None


def _identity(value: Any) -> str | None:
    member = getattr(value, "name", None)
    if member in PlatformEnum.__members__ and not isinstance(value, str):
        return None
    # A member of a newer host's enum; members are always compared by name.
    if isinstance(value, enum.Enum) and type(value).__name__ == PlatformEnum.__name__:
        return None
    known = ", ".join(PlatformEnum.__members__)
    return f"is {value!r}, not a member of PlatformEnum ({known}), so every is_*() would answer False"


def _capabilities(value: Any) -> str | None:
    # By name, so that a platform written for the host may hand in the host's struct.
    if type(value).__name__ == "PlatformCapabilities":
        return None
    called = " (call it)" if getattr(value, "__name__", None) == "PlatformCapabilities" else ""
    return f"is {value!r}, not a PlatformCapabilities instance{called}"


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else f"is {value!r}, not a non-empty str"


def _device_type(value: Any) -> str | None:
    if isinstance(value, str) and ":" in value:
        return f"is {value!r}: a device type carries no index"
    if isinstance(value, str) and value and _DEVICE_TYPE.fullmatch(value) is None:
        return (
            f"is {value!r}: torch reads lower-case letters and underscores as a device type, and nothing else"
        )
    return _text(value)


def _each(rule: Callable[[Any], str | None], example: str) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if isinstance(value, str) or not isinstance(value, Collection):
            return f"is {value!r}, not a collection such as {example}"
        wrong = [problem for entry in value if (problem := rule(entry)) is not None]
        return f"holds {'; '.join(wrong)}" if wrong else None

    return check


def _word_of(words: Callable[[], Iterable[str]]) -> Callable[[Any], str | None]:
    def check(entry: Any) -> str | None:
        known = sorted(words())
        if entry in known:
            return None
        meant = nearest(str(entry), known)
        hint = f", did you mean {meant!r}?" if meant else ""
        return f"{entry!r}, which is none of {', '.join(known)}{hint}"

    return check


def _kind_names() -> Iterable[str]:
    for row in KINDS.values():
        yield from (row.name, *row.older_names)


def _dtype(entry: Any) -> str | None:
    if isinstance(entry, str) and entry and not entry.startswith("torch."):
        return None
    return f"{entry!r}: a type is declared by torch's name for it, without the prefix, as a str"


def _page_size(entry: Any) -> str | None:
    good = isinstance(entry, int) and not isinstance(entry, bool) and entry >= 1
    return None if good else f"{entry!r}, not a number of tokens (an int of at least 1)"


def _location(entry: Any) -> str | None:
    good = isinstance(entry, str) and PLACE.fullmatch(entry) is not None
    return None if good else f'{entry!r}, not a location "pkg.mod:NAME"'


_RULES: dict[str, Callable[[Any], str | None]] = {
    "_enum": _identity,
    "attention_features": _each(_word_of(lambda: FEATURES), '{"gqa", "sliding_window"}'),
    "capabilities": _capabilities,
    "conformance_profiles": _each(_text, '("core", "mla")'),
    "device_name": _text,
    "device_type": _device_type,
    "extra_public_names": _each(_text, 'frozenset({"get_cluster_info"})'),
    "kernels": _each(_location, '("my_device.kernels.decode:SPEC",)'),
    "supported_kv_dtypes": _each(_dtype, '("bfloat16",)'),
    "supported_kv_kinds": _each(_word_of(_kind_names), '("mha",)'),
    "supported_page_sizes": _each(_page_size, "(1, 16, 64)"),
    "supported_quantization": _each(_text, '["fp8"]'),
}
