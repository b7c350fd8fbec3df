"""How the host's interface drifted: each older name, what took its place, and when.

The table was read from the wheels of SGLang 0.5.11 to 0.5.23, every release between included. `since` and
`until` are the first and the last release whose own interface has the older form.

A vendor's class that still uses an older form works: `contract.bridges` serves it through today's name, with
one DeprecationWarning per class and name. And a class written in today's names only serves older hosts: the
host adapter adds `contract.bridges.older_methods(host_version)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["OLDER_NAMES", "OLDER_SIGNATURES", "OlderName", "OlderSignature", "older_name", "older_signature"]


@dataclass(frozen=True)
class OlderName:
    """A method that older hosts call and today's contract no longer has."""

    old: str
    new: str
    """What to write today, for messages."""
    since: str
    until: str
    bridge: Literal["kv_pool", "capability"]
    """`kv_pool`: the older method answers `get_kv_pool_cls` for one kind. `capability`: it answers one field
    of `capabilities`."""
    detail: str
    """The kind of pool, or the field."""

    @property
    def member(self) -> str:
        """The contract's name that the older one answers."""
        return "get_kv_pool_cls" if self.bridge == "kv_pool" else "capabilities"


@dataclass(frozen=True)
class OlderSignature:
    """A method that kept its name and changed its parameters."""

    name: str
    older: tuple[str, ...]
    """The older parameters, without `self`."""
    today: str
    since: str
    until: str


# fmt: off
OLDER_NAMES: tuple[OlderName, ...] = (
    OlderName("get_mha_kv_pool_cls", "get_kv_pool_cls(kind='mha')", "0.5.11", "0.5.21", "kv_pool", "mha"),
    OlderName("get_mla_kv_pool_cls", "get_kv_pool_cls(kind='mla')", "0.5.11", "0.5.21", "kv_pool", "mla"),
    OlderName("get_dsa_kv_pool_cls", "get_kv_pool_cls(kind='dsa')", "0.5.13", "0.5.21", "kv_pool", "dsa"),
    OlderName("get_nsa_kv_pool_cls", "get_kv_pool_cls(kind='dsa')", "0.5.11", "0.5.12", "kv_pool", "dsa"),
    OlderName("support_cuda_graph", "capabilities.graph_capture", "0.5.11", "0.5.21",
              "capability", "graph_capture"),
    OlderName("support_piecewise_cuda_graph", "capabilities.piecewise_graph", "0.5.11", "0.5.21",
              "capability", "piecewise_graph"),
    OlderName("supports_fp8", "capabilities.fp8", "0.5.11", "0.5.21", "capability", "fp8"),
)

OLDER_SIGNATURES: tuple[OlderSignature, ...] = (
    OlderSignature("is_pin_memory_available", (), "is_pin_memory_available(self, device=None)",
                   "0.5.11", "0.5.15"),
    OlderSignature("get_device", ("local_rank",), "get_device(self, device_id=0)", "0.5.11", "0.5.12"),
)
# fmt: on

_BY_NAME = {row.old: row for row in OLDER_NAMES}
_BY_SIGNATURE = {row.name: row for row in OLDER_SIGNATURES}


def older_name(name: str) -> OlderName | None:
    """The row of an older method name, or None where `name` never was one."""
    return _BY_NAME.get(name)


def older_signature(name: str, parameters: tuple[str, ...]) -> OlderSignature | None:
    """The row under which `name` once had exactly these parameters, or None."""
    row = _BY_SIGNATURE.get(name)
    return row if row is not None and row.older == parameters else None
