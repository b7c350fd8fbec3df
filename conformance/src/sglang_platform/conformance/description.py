"""What a report says of a platform: who it is, and what it declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.conformance.plugin import DeviceAbsent
from sglang_platform.conformance.subject import PlatformRefused, Subject
from sglang_platform.core.errors import PlatformError

__all__ = ["describe", "nobody"]

_CAPABILITIES = (
    "supports_triton",
    "graph_capture",
    "piecewise_graph",
    "hicache_device_kernels",
    "supports_pynccl",
    "fp8",
)


def describe(subject: Subject) -> dict[str, Any]:
    """The `platform` and `declares` parts of a report, as far as the platform can be made, and its `models`."""
    record = subject.record
    about = nobody(subject.name, subject.location, None)
    found = about["platform"]
    if record is not None:
        found["entry_point"] = record.value
        found["distribution"], found["version"] = record.origin.distribution, record.origin.version
    try:
        found["device_absent"] = subject.availability
        platform = subject.platform
    except (PlatformError, PlatformRefused, DeviceAbsent, SystemExit):
        return about  # contract.platform_is_created says why
    found["class"] = f"{type(platform).__module__}.{type(platform).__qualname__}"
    found["on_contract"] = subject.knows_core
    found["device_name"], found["device_type"] = (
        _text(platform, "device_name"),
        _text(platform, "device_type"),
    )
    if found["device_absent"] is None:
        found["device"] = _asked(platform.get_device_name)
    about["declares"] |= _declares(subject)
    about["models"] = _models(subject)
    return about


def nobody(name: str, location: str | None, why: str | None) -> dict[str, Any]:
    """The description of a platform of which nothing more is known."""
    empty = dict.fromkeys(("entry_point", "distribution", "version", "class", "on_contract"))
    empty |= dict.fromkeys(("device_name", "device_type", "device"))
    fields = (
        "kv_kinds", "kv_dtypes", "page_sizes", "attention_features", "kernels", "profiles", "capabilities",
    )  # fmt: skip
    return {
        "platform": {"name": name, "location": location, **empty, "device_absent": why},
        "declares": {**{field: [] for field in fields}, "origin": {}},
        "models": [],
    }


def _declares(subject: Subject) -> dict[str, Any]:
    try:
        declared = subject.declares
        capabilities = subject.platform.capabilities
    except Exception:  # noqa: BLE001 - the contract checks report what is wrong with a declaration
        return {}
    return {
        "kv_kinds": list(declared.kv_kinds),
        "kv_dtypes": list(declared.kv_dtypes),
        "page_sizes": list(declared.page_sizes),
        "attention_features": sorted(declared.attention_features),
        "kernels": list(declared.kernels),
        "profiles": list(declared.profiles),
        "capabilities": [name for name in _CAPABILITIES if getattr(capabilities, name, False)],
        "origin": dict(declared.origin),
    }


def _models(subject: Subject) -> list[dict[str, Any]]:
    """For each file of `--model` its shapes, and why attention is not tried in them."""
    if not subject.model_files:
        return []
    from sglang_platform.conformance.fixtures.served_models import why_left  # imports torch

    found: dict[str, list[dict[str, Any]]] = {}
    for path, shape in subject.shapes_by_file:
        found.setdefault(path, []).append({"name": shape.name, "left": why_left(subject, shape)})
    return [{"path": path, "shapes": shapes} for path, shapes in found.items()]


def _text(platform: Any, name: str) -> str | None:
    value = getattr(platform, name, None)
    return None if value is None else str(value)


def _asked(method: Callable[[], Any]) -> str | None:
    try:
        return str(method())
    except Exception:  # noqa: BLE001 - the same
        return None
