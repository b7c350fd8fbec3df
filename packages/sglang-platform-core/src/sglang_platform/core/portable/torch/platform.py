"""Base of a platform that chooses between its own parts and the host's by rule.

For a backend that keeps an identity the host knows, so that the host loses none of its own features for the device. In
a host its rules decide which of the parts below serve; `SGLANG_PLATFORM_PARTS` overrides them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.contract.types import KVPoolKind, kv_pool_kind
from sglang_platform.core.host import active_host
from sglang_platform.core.portable.decode_tables import is_faster
from sglang_platform.core.portable.parts import PartsRule, Rule, asked_of

if TYPE_CHECKING:
    import torch

__all__ = ["TorchSRTPlatform"]

_log = logging.getLogger(__name__)


class TorchSRTPlatform(SRTPlatform):
    """The LLM runtime on a device that torch reaches and Triton compiles for.

    A backend derives from this and from its device mixin. It says `_rules`, `_attention_backend` and `_own_parts`, the
    operators of the host, and everything that the contract has it declare: the dtypes, page sizes and kinds of its KV
    pools, its attention features, its capabilities, its kernels.
    """

    _rules: ClassVar[Mapping[str, Rule]]
    """The rule for each part in a host, unless `SGLANG_PLATFORM_PARTS` says otherwise."""
    _attention_backend: ClassVar[str]
    """The name of the backend's own attention in the host."""
    _own_parts: ClassVar[Mapping[str, str]]
    """The import paths (`module:name`) of the backend's own parts, imported when they are used: `attention`,
    `allocator`, `graph_runner`, `register_ops` (a function of the dispatch key), and `kv_pools`, the pools
    by kind."""

    _decode_tables: ClassVar[Path | None] = None
    """The folder with the tables of decode that were measured, `decode_tables`."""

    @cached_property
    def _parts(self) -> PartsRule:
        return PartsRule(self.device_name, self._rules)

    def _own(self, name: str) -> Any:
        return resolve_name(self._own_parts[name])

    def _own_where(self, part: str, name: str) -> type | None:
        """The backend's own `name` if the rule for `part` chooses it, otherwise None."""
        own: type | None = self._own(name) if self._parts.own(part) else None
        return own

    def finalize_server_args(self, server_args: Any) -> None:
        """Let the backend's own attention serve decode beside the host's prefill, where a table of this card says that
        it is faster. Where nobody measured, and where the operator named a backend, nothing is set."""
        host = active_host()
        if host is None or self._decode_tables is None or asked_of("attention") != "auto":
            return
        if not any(self._decode_tables.glob("decode_*.json")):
            return
        asked = host.decode_asked(server_args)
        if asked is not None and is_faster(self._decode_tables, self.get_device_name(), asked):
            server_args.decode_attention_backend = self._attention_backend
            words = "%s: decode attention is its own, as measured on this card beside %s"
            _log.info(words, self.device_name, asked.beside)

    def get_attention_backends(self) -> dict[str, type]:
        """The backend's own; an operator may name it whatever the rule says."""
        return {self._attention_backend: self._own("attention")}

    def get_default_attention_backend(self) -> str:
        """The backend's own, or NotImplementedError where the host is to choose among its own."""
        choice = self._parts.choose("attention")
        if not choice.own:
            raise NotImplementedError(f"the host chooses among its own attention backends: {choice.reason}")
        return self._attention_backend

    def get_kv_pool_cls(self, *, kind: KVPoolKind) -> type | None:
        """The backend's pool of the kind, or None where the host's own is to serve."""
        kind = kv_pool_kind(kind)
        if not self._parts.choose("kv_pool", kind).own:
            return None
        pools: dict[str, type] = self._own("kv_pools")
        return pools[kind]

    def get_paged_allocator_cls(self) -> type | None:
        """The backend's paged allocator, or None where the host's own is to serve."""
        return self._own_where("allocator", "allocator")

    def get_graph_runner_cls(self) -> type | None:
        """Graphs of decode steps, or None where the host's own runner is to serve."""
        return self._own_where("graph_runner", "graph_runner")

    def get_communicator_class(self) -> type | None:
        """torch.distributed, or None where the host's own communicators are to serve."""
        if not self._parts.own("communicator"):
            return None
        # It imports torch, which the platform class does not.
        from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

        return TorchGroupCommunicator

    def init_backend(self) -> None:
        """Registers the fused ops, where the backend's are to serve."""
        if self._parts.own("ops"):
            self._own("register_ops")(self.get_dispatch_key_name())

    def get_group_coordinator_device(self, local_rank: int) -> torch.device:
        """The device of this rank."""
        return self.get_device(local_rank)
