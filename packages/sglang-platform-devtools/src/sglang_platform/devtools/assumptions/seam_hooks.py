"""The hooks that the adapter's seams register for a release. SGLang need not be installed."""

from __future__ import annotations

import dis
from typing import Any

from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.contract.types import PlatformEnum
from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.sglang.arguments import only_on_cuda
from sglang_platform.core.sglang.rebase import REBASED_MARK
from sglang_platform.core.sglang.start import all_hooks
from sglang_platform.core.sglang.versions import facts_for
from sglang_platform.devtools.assumptions.carried import SeamHook, Seams

__all__ = ["seams_of"]

_ADAPTER = "sglang_platform.core.sglang"


def seams_of(release: str) -> Seams:
    """The hooks of every seam on an out-of-tree platform that does not launch Triton. None of them is applied.

    Raises HostError for a release without a platform interface.
    """
    host = facts_for(release)
    with HookRegistry.collecting() as registered:
        all_hooks.register_hooks(_AnyDevice(), host)
    hooks = tuple(
        SeamHook(_seam(one.hook.__module__), one.key, one.type.value, _replaces(one.hook, one.type))
        for one in registered
    )
    refused = {feature.argument: _seam(only_on_cuda.__name__) for feature in only_on_cuda.FEATURES}
    return Seams(release, hooks, tuple(sorted(host.imports_everywhere)), refused)


class _AnyDevice(SRTPlatform):
    """A platform that leaves everything to core."""

    _enum, device_name, device_type = PlatformEnum.OOT, "any device", "any_device"


setattr(_AnyDevice, REBASED_MARK, True)  # as in the host, where the class is rebased on the host's own


def _replaces(hook: Any, type_: HookType) -> bool:
    """True if the host's function never runs, as under an AROUND hook that never uses the original."""
    code = getattr(hook, "__code__", None)
    if type_ is not HookType.AROUND or code is None:
        return type_ is HookType.REPLACE
    original = code.co_varnames[0]
    return all(one.argval != original for one in dis.get_instructions(code))


def _seam(module: str) -> str:
    """`sglang_platform.core.sglang.attention.data_parallel` -> `attention.data_parallel`."""
    return module.removeprefix(f"{_ADAPTER}.")
