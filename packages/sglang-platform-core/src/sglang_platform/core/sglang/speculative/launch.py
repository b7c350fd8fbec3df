"""Speculative decoding at the launch: refused where the platform does not declare the algorithm, else admitted.

From 0.5.21 on, the host asks an out-of-tree platform about some algorithms only; it admits n-gram drafts by device
name.
"""

from __future__ import annotations

import importlib
from typing import Any

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.registration import argument, only_for
from sglang_platform.core.sglang.versions import HostFacts, since

__all__ = ["SPECULATION", "check_algorithm", "check_arguments", "check_model", "register_hooks"]

SPECULATION = argument("speculative_algorithm")
_ARGUMENTS = "sglang.srt.arg_groups.speculative_hook"
_KNOWN = ("NGRAM", "STANDALONE", "EAGLE", "EAGLE3", "FROZEN_KV_MTP", "DFLASH", "DSPARK", "UNO")

_KERNELS_ONLY = {
    "speculative_accept_threshold_single": (
        1.0,
        "drafts are verified without loss here: by the target's own choice",
    ),
    "speculative_accept_threshold_acc": (
        1.0,
        "drafts are verified without loss here: by the target's own choice",
    ),
    "speculative_use_rejection_sampling": (False, "SGLang has rejection sampling as a Triton kernel only"),
    "speculative_use_block_verification": (False, "SGLang has block verification as a Triton kernel only"),
    "enable_multi_layer_eagle": (False, "SGLang prepares its drafts with Triton kernels only"),
}
"""Each argument with the value that needs no kernel of the host, and why other values are refused."""


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Check the operator's algorithm with the platform before the host settles it."""

    def settle(original: Any, server_args: Any) -> Any:
        asked = getattr(server_args, "speculative_algorithm", None)
        if asked is not None:
            check_algorithm(platform, host, str(asked).upper())
            check_arguments(platform, server_args)
            check_model(platform, host, load(host.model_config_of)(server_args))
        return original(server_args)

    only_for(SPECULATION, host.settles_speculation, settle, HookType.AROUND)
    if host.speculative_kernels:
        only_for(SPECULATION, f"{_ARGUMENTS}:_handle_ngram", _admit_ngram, HookType.AROUND)


def check_algorithm(platform: Any, host: HostFacts, algorithm: str) -> None:
    """Raise LaunchRefused unless the platform declares the algorithm and the kernels of this release can be
    replaced."""
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


def check_arguments(platform: Any, server_args: Any) -> None:
    """Raise LaunchRefused for arguments that would call a kernel of the host while serving."""
    for field, (plain, why) in _KERNELS_ONLY.items():
        value = getattr(server_args, field, plain)
        if value != plain:
            option = "--" + field.replace("_", "-")
            raise LaunchRefused(
                f"{option} is not served on the platform {platform.device_name!r}",
                plugin=getattr(platform, "_plugin_origin", None),
                why=why,
                fix=f"leave out {option}",
            )


def check_model(platform: Any, host: HostFacts, model_config: Any) -> None:
    """Raise LaunchRefused for a model whose layers keep a state per request, which the host supports with Triton
    kernels only."""
    if platform.capabilities.supports_triton or load(host.config_with_states)(model_config) is None:
        return
    architecture = model_config.hf_config.architectures[0]
    raise LaunchRefused(
        f"speculative decoding of {architecture} is not served on the platform {platform.device_name!r}",
        plugin=getattr(platform, "_plugin_origin", None),
        why=f"its layers keep a state per request, and SGLang {host.version} keeps the states of drafts, and goes back "
        "to those of the accepted ones, with Triton kernels alone (layers/attention/hybrid_linear_attn_backend.py, "
        "update_mamba_state_after_mtp_verify); capabilities.supports_triton is False",
        fix="leave out --speculative-algorithm, or serve a model whose layers keep keys and values",
    )


def _admit_ngram(original: Any, server_args: Any) -> Any:
    """Run the host's n-gram check with an admitted device name: the drafts come from its n-gram table, whatever the
    device."""
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
