"""The differences between the platforms of SGLang's two runtimes: group, variables, base class, host, rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import (
    DIFFUSION_GENERAL_GROUP,
    DIFFUSION_PLATFORM_GROUP,
    GENERAL_GROUP,
    PLATFORM_GROUP,
)
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.host import DIFFUSION_RUNTIME, LLM_RUNTIME, HostRuntime

__all__ = ["DIFFUSION", "KINDS", "PLUGIN_GROUPS", "SRT", "PlatformKind", "installed_plugins", "is_used"]

# Imports inside functions: the contract takes longer to import than all of discovery, and a process that only lists
# plugins does not need it.


@dataclass(frozen=True)
class PlatformKind:
    """One kind of platform, with separate plugin groups and environment variables."""

    runtime: str
    """The runtime's display name."""

    group: str
    """The entry-point group of its plugins."""

    general_group: str
    """The entry-point group of its general plugins."""

    variable: str
    """The environment variable that names the platform to use, by entry-point name."""

    development_variable: str
    """The environment variable for a platform without a distribution: `name=pkg.mod:Class`, see `settings`."""

    core_base: Callable[[], type]
    """Returns core's base class of the kind. A function, so that importing this module does not import the contract."""

    host: HostRuntime
    """The runtime; it need not run in this process."""

    object_name: str
    """The name of core's lazy platform object."""

    decorator: str
    """The name of the decorator of its `activate()`, in `sglang_platform.core`."""

    own_names: frozenset[str] = frozenset()
    """Lower-case names of the host's own platforms: allowed in `variable`, forbidden for plugins."""

    out_of_tree_only: bool = False
    """Whether the host accepts only plugin platforms whose `_enum` is OOT."""


def _srt_base() -> type:
    from sglang_platform.core.contract.srt import SRTPlatform

    return SRTPlatform


def _diffusion_base() -> type:
    from sglang_platform.core.contract.mm import MMPlatform

    return MMPlatform


SRT = PlatformKind(
    runtime="LLM",
    group=PLATFORM_GROUP,
    general_group=GENERAL_GROUP,
    variable="SGLANG_PLATFORM",
    development_variable="SGLANG_PLATFORM_PLUGIN",
    core_base=_srt_base,
    host=LLM_RUNTIME,
    object_name="current_platform",
    decorator="platform_plugin",
)
"""The LLM runtime's platforms."""

DIFFUSION = PlatformKind(
    runtime="diffusion",
    group=DIFFUSION_PLATFORM_GROUP,
    general_group=DIFFUSION_GENERAL_GROUP,
    variable="SGLANG_DIFFUSION_PLATFORM_OVERRIDE",
    development_variable="SGLANG_DIFFUSION_PLATFORM_PLUGIN",
    core_base=_diffusion_base,
    host=DIFFUSION_RUNTIME,
    object_name="current_mm_platform",
    decorator="mm_platform_plugin",
    # From SGLang 0.5.23, `sglang.multimodal_gen.runtime.platforms.BUILTIN_PLATFORM_NAMES`.
    own_names=frozenset({"cpu", "cuda", "rocm", "xpu", "mps", "npu", "musa"}),
    out_of_tree_only=True,
)
"""The diffusion runtime's platforms."""

KINDS = (SRT, DIFFUSION)

PLUGIN_GROUPS = {
    SRT.group: "platform",
    SRT.general_group: "general",
    DIFFUSION.group: "diffusion platform",
    DIFFUSION.general_group: "diffusion general",
}
"""Every group whose entry points are plugins, with their label in tables."""


def installed_plugins() -> Iterator[EntryPointRecord]:
    """All plugins of both runtimes, platforms and general plugins."""
    for group in PLUGIN_GROUPS:
        yield from scan.records(group)


def is_used(kind: PlatformKind) -> bool:
    """True for the LLM runtime. The diffusion runtime counts if a variable names its platform, or a distribution has
    a platform for it and none for LLMs."""
    if kind is SRT or kind.variable in os.environ or kind.development_variable in os.environ:
        return True
    carriers = {record.origin.distribution for record in scan.records(SRT.group)}
    return any(record.origin.distribution not in carriers for record in scan.records(kind.group))
