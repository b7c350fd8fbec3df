"""The example's platform with one part of it exchanged."""
from __future__ import annotations

from typing import Any

from sglang_platform.example_oot.platform import ATTENTION_BACKEND, ExampleOOTPlatform


class WithParts(ExampleOOTPlatform):
    _backend: Any = None
    _mha: Any = None
    _mla: Any = None
    _dsa: Any = None
    _allocator: Any = None
    _runner: Any = None
    _host_memory_cls: Any = None
    _saver: Any = None

    def get_attention_backends(self):
        return {ATTENTION_BACKEND: self._backend} if self._backend else super().get_attention_backends()

    def get_kv_pool_cls(self, *, kind: str):
        own = {"mha": self._mha, "mla": self._mla, "dsa": self._dsa}.get(kind)
        return own or super().get_kv_pool_cls(kind=kind)

    def get_paged_allocator_cls(self):
        return self._allocator or super().get_paged_allocator_cls()

    def get_graph_runner_cls(self):
        return self._runner or super().get_graph_runner_cls()

    def get_host_memory_cls(self):
        return self._host_memory_cls or super().get_host_memory_cls()

    def get_memory_saver_cls(self):
        return self._saver or super().get_memory_saver_cls()
