"""Speculative decoding at the launch: refused where the platform does not declare the algorithm, else admitted.

Of the algorithms, the host asks an out-of-tree platform for some only, from 0.5.21 on; n-gram drafts it admits by the
name of the device.
"""

from __future__ import annotations

import importlib
from typing import Any

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.versions import HostFacts, since

__all__ = ["register_hooks"]

_ARGUMENTS = "sglang.srt.arg_groups.speculative_hook"
_KNOWN = ("NGRAM", "STANDALONE", "EAGLE", "EAGLE3", "FROZEN_KV_MTP", "DFLASH", "DSPARK", "UNO")


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Ask the platform when the operator's algorithm is about to be settled."""

    def settle(original: Any, server_args: Any) -> Any:
        asked = getattr(server_args, "speculative_algorithm", None)
        if asked is not None:
            _check(platform, host, str(asked).upper())
        return original(server_args)

    HookRegistry.register(host.settles_speculation, settle, HookType.AROUND)
    if host.speculative_kernels:
        HookRegistry.register(f"{_ARGUMENTS}:_handle_ngram", _admit_ngram, HookType.AROUND)


def _check(platform: Any, host: HostFacts, algorithm: str) -> None:
    name = "EAGLE" if algorithm == "NEXTN" else algorithm
    plugin = getattr(platform, "_plugin_origin", None)
    declared = [known for known in _KNOWN if platform.supports_speculative_algorithm(known)]
    if not platform.supports_speculative_algorithm(name):
        raise LaunchRefused(
            f"speculative decoding with {algorithm} is not served on the platform {platform.device_name!r}",
            plugin=plugin,
            why=f"supports_speculative_algorithm({name!r}) is False; it declares {', '.join(declared) or 'none'}",
            fix="leave out --speculative-algorithm"
            + (f", or choose one of {', '.join(declared)}" if declared else ""),
        )
    if not host.speculative_kernels:
        raise LaunchRefused(
            f"speculative decoding with {algorithm} is not carried to out-of-tree devices on SGLang {host.version}",
            plugin=plugin,
            why="this release launches kernels of its own devices from places that cannot be replaced",
            fix=f"use SGLang {since('speculative_kernels')} or later, or leave out --speculative-algorithm",
        )


def _admit_ngram(original: Any, server_args: Any) -> Any:
    """The drafts come from the host's own table of n-grams, whatever the device; only its name is not in the list."""
    module: Any = importlib.import_module(_ARGUMENTS)
    view = module.resolving_view
    module.resolving_view = lambda record: _NamedCuda(view(record))
    try:
        return original(server_args)
    finally:
        module.resolving_view = view


class _NamedCuda:
    """A view of the server arguments whose device has a name that the host admits."""

    device = "cuda"

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)
