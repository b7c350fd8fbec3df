"""The entry-point groups of SGLang's plugin framework and of this project, and their retired names."""

from __future__ import annotations

from sglang_platform.core.spelling import nearest

__all__ = [
    "COMMAND_GROUP",
    "CONTRACT_GROUP",
    "DIFFUSION_GENERAL_GROUP",
    "DIFFUSION_PLATFORM_GROUP",
    "DOCTOR_GROUP",
    "GENERAL_GROUP",
    "KNOWN_GROUPS",
    "OWN_PLUGIN",
    "PLATFORM_GROUP",
    "RETIRED_GROUPS",
    "meant_group",
]

PLATFORM_GROUP = "sglang.srt.platforms"
"""Platforms: `activate() -> "pkg.mod:Class" | None`."""

GENERAL_GROUP = "sglang.srt.plugins"
"""General plugins: functions called for their side effects."""

DIFFUSION_PLATFORM_GROUP = "sglang.multimodal_gen.platforms"
"""Platforms of the diffusion runtime, which reads the group since SGLang 0.5.23."""

DIFFUSION_GENERAL_GROUP = "sglang.multimodal_gen.plugins"
"""General plugins of the diffusion runtime."""

CONTRACT_GROUP = "sglang_platform.contract"
"""The contract version of a plugin: the plugin's name with `v<number>` as value. Never loaded."""

COMMAND_GROUP = "sglang_platform.cli"
"""Subcommands of `sglang-platform`: a `typer.Typer` or a function under the subcommand's name."""

DOCTOR_GROUP = "sglang_platform.doctor"
"""Extensions of `doctor`: `sources` reads sources."""

OWN_PLUGIN = "sglang_platform_core"
"""Core's general plugin, through which the host's plugin loader calls this project."""

KNOWN_GROUPS = frozenset(
    {
        PLATFORM_GROUP,
        GENERAL_GROUP,
        CONTRACT_GROUP,
        COMMAND_GROUP,
        DOCTOR_GROUP,
        DIFFUSION_PLATFORM_GROUP,
        DIFFUSION_GENERAL_GROUP,
        "sglang.serve_backends",
        "sglang.srt.startup_plugins",
    }
)
"""The groups that SGLang 0.5.23 and this project read, and those that SGLang's documentation announces."""

RETIRED_GROUPS = {
    "sglang.platform_plugins": PLATFORM_GROUP,
    "sglang.platforms": PLATFORM_GROUP,
    "sglang.plugins": GENERAL_GROUP,
    "sglang.general_plugins": GENERAL_GROUP,
}
"""Group names from drafts of SGLang's framework, which no release reads, and the group to use instead."""


def meant_group(group: str) -> str | None:
    """The group that an unread one was probably meant to be, or None."""
    names = {**{known: known for known in KNOWN_GROUPS}, **RETIRED_GROUPS}
    return names.get(nearest(group, names, cutoff=0.8) or "")
