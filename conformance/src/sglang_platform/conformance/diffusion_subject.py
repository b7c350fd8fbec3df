"""The platform under test as the diffusion runtime would get it: the plugin of the same name in that runtime's group.

A vendor's one distribution may carry both; where it carries none for this runtime, what needs one is not run.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from sglang_platform.conformance.plugin import named
from sglang_platform.conformance.requirement import Requirement
from sglang_platform.core.contract.mm import HOST_DEFAULT
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.kind import DIFFUSION
from sglang_platform.core.discovery.resolve import Decision, resolve

if TYPE_CHECKING:
    from sglang_platform.conformance.subject import Subject

__all__ = ["attention_class", "diffusion", "platform", "resolved"]


def diffusion() -> Requirement:
    """It registers a plugin of its name for the diffusion runtime."""

    def why_not(subject: Subject) -> str | None:
        if any(record.name == subject.name for record in scan.records(DIFFUSION.group)):
            return None
        return f"no plugin {subject.name!r} in {DIFFUSION.group}: that runtime is left to the host's own platforms"

    return Requirement("diffusion", "a platform of the diffusion runtime", why_not)


def resolved(subject: Subject) -> Decision:
    """What core's rules decide where the operator names this platform. Raises PlatformError."""
    with named(DIFFUSION.variable, subject.name):
        return resolve(DIFFUSION)


_made: dict[str, Any] = {}


def platform(subject: Subject) -> Any:
    """The platform object, made once per process. Raises PlatformError."""
    if subject.name not in _made:
        cls = resolved(subject).platform_class
        assert cls is not None
        made = cls()
        made.init_backend()
        _made[subject.name] = made
    return _made[subject.name]


def attention_class(subject: Subject, head_size: int = 64) -> type | None:
    """The attention class that the platform names for float32 and no selected backend; None for the host's own."""
    import torch

    place = platform(subject).get_attn_backend_cls_str(None, head_size, torch.float32)
    return None if place == HOST_DEFAULT else resolve_name(place)  # type: ignore[no-any-return]
