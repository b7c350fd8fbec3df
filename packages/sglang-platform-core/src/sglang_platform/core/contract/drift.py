"""Changes of the host's interface: each older signature, its replacement, and the releases that use it.

Covers the methods that a vendor implements and a host calls. The host's own classes and functions are in
`sglang/versions.py`, because the contract imports no host. The entries come from the wheels of every release of SGLang
from 0.5.11 to `NEWEST`.

To support a new change, add a row. A vendor's class with the older signature still works under the current name, and
warns once per class and name (`contract.bridges`); a class with the current signature also works on older hosts
(`bridges.older_methods`). The row types are in `contract.drift_rows`; importing this module fails on any other type.
"""

from __future__ import annotations

from sglang_platform.core.contract.drift_rows import (
    BecameField,
    BecameKind,
    ChangedSignature,
    DriftRow,
    Renamed,
    checked,
)

__all__ = [
    "NEWEST",
    "TABLE",
    "DriftRow",
    "Renamed",
    "older_name",
    "older_names",
    "older_signature",
    "rows_in_force",
]

NEWEST = "0.5.23"
"""The last release whose wheel was read."""

# fmt: off
TABLE: tuple[DriftRow, ...] = checked((
    BecameKind("get_mha_kv_pool_cls", "get_kv_pool_cls", "0.5.11", "0.5.21", kind="mha"),
    BecameKind("get_mla_kv_pool_cls", "get_kv_pool_cls", "0.5.11", "0.5.21", kind="mla"),
    BecameKind("get_dsa_kv_pool_cls", "get_kv_pool_cls", "0.5.13", "0.5.21", kind="dsa"),
    BecameKind("get_nsa_kv_pool_cls", "get_kv_pool_cls", "0.5.11", "0.5.12", kind="dsa"),
    BecameField("support_cuda_graph", "capabilities", "0.5.11", "0.5.21", field="graph_capture"),
    BecameField("support_piecewise_cuda_graph", "capabilities", "0.5.11", "0.5.21", field="piecewise_graph"),
    BecameField("supports_fp8", "capabilities", "0.5.11", "0.5.21", field="fp8"),
    ChangedSignature("is_pin_memory_available", "is_pin_memory_available", "0.5.11", "0.5.15",
                     older_from_today=lambda older, device=None: older(),
                     today_from_older=lambda today: today()),
    ChangedSignature("get_device", "get_device", "0.5.11", "0.5.12",
                     older_from_today=lambda older, device_id=0: older(device_id),
                     today_from_older=lambda today, local_rank: today(local_rank)),
))
# fmt: on


def older_names() -> tuple[DriftRow, ...]:
    """The rows of names that the contract does not have."""
    return tuple(row for row in TABLE if row.old != row.member)


def older_name(name: str) -> DriftRow | None:
    """The row of an older name, or None where `name` never was one."""
    return next((row for row in older_names() if row.old == name), None)


def older_signature(name: str, parameters: tuple[str, ...]) -> ChangedSignature | None:
    """The row under which the contract's method `name` once had exactly these parameters, or None."""
    for row in TABLE:
        if isinstance(row, ChangedSignature) and row.old == row.member == name and row.older == parameters:
            return row
    return None


def rows_in_force(host_version: str) -> tuple[DriftRow, ...]:
    """The older forms that a host of this version calls."""
    return tuple(row for row in TABLE if row.in_force(host_version))
