"""What of a release's requirements a device can use."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.devtools.requirements.packages import (
    CUDA_ONLY,
    PORTABLE,
    TORCH_EXTENSIONS,
    TORCH_FAMILY,
    TRITON,
)
from sglang_platform.devtools.upgrade.release import HOST

__all__ = ["CUDA", "NONE", "ROCM", "DevicePackages", "Line", "select"]

NONE, CUDA, ROCM = "none", "cuda", "rocm"

_FOR_CUDA = re.compile(r"cu\d+")
_EXTRA = re.compile(r'extra == "([^"]+)"')


@dataclass(frozen=True)
class Line:
    """A requirement without marker, and a note: why it is left out, or what is special about it."""

    requirement: str
    note: str = ""


@dataclass
class DevicePackages:
    """The requirements that a device can use, those that it cannot, and the kept ones that are unknown here."""

    kept: list[Line] = field(default_factory=list)
    left_out: list[Line] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def select(
    lines: Iterable[str], device: str, extras: Collection[str] = (), without: Collection[str] = ()
) -> DevicePackages:
    """The requirements for `device`: `none`, `cuda`, `rocm`, or any other name, whose torch is a plugin's own.

    Markers are evaluated for this Python on this machine. `extras`: of SGLang, with those that they name in turn.
    `without`: packages that the caller does not want.
    Raises ConfigurationError for a line that is no requirement.
    """
    selection = DevicePackages()
    unwanted = set(map(canonicalize_name, without))
    for requirement in _wanted(list(map(_parsed, lines)), extras):
        if canonicalize_name(requirement.name) in unwanted:
            selection.left_out.append(Line(str(requirement), "not wanted (--without)"))
        else:
            _place(selection, requirement, device)
    if device not in (CUDA, ROCM) and not any(
        canonicalize_name(_name(one)) == TRITON[0] for one in selection.kept
    ):
        selection.kept.append(Line(*TRITON))
    for side in (selection.kept, selection.left_out):
        side[:] = sorted(set(side), key=lambda line: line.requirement.lower())
    return selection


def _place(selection: DevicePackages, requirement: Requirement, device: str) -> None:
    name, text = canonicalize_name(requirement.name), str(requirement)
    why_not = _why_not(requirement, device)
    if why_not is not None:
        selection.left_out.append(Line(text, why_not))
    elif name in TORCH_FAMILY and device not in (NONE, CUDA):
        asked = f"SGLang asks for {text}; " if requirement.specifier else ""
        selection.kept.append(Line(name, f"{asked}the torch plugin of the device decides"))
    elif name in PORTABLE or name in TORCH_FAMILY or name in TORCH_EXTENSIONS or device == CUDA:
        selection.kept.append(Line(text))
    else:
        selection.unknown.append(text)
        selection.kept.append(Line(text, "not known here whether the device can use it"))


def _why_not(requirement: Requirement, device: str) -> str | None:
    """Why the device cannot use a package; None where it can, or where that is unknown."""
    name = canonicalize_name(requirement.name)
    if device == CUDA:
        return None
    if name in CUDA_ONLY:
        return CUDA_ONLY[name]
    if any(map(_FOR_CUDA.fullmatch, [*name.split("-"), *requirement.extras])):
        return "built for CUDA, as its name says"
    if device == ROCM and name in (*TORCH_FAMILY, *TORCH_EXTENSIONS, TRITON[0]):
        return "the package index has the build for CUDA; keep AMD's"
    return TORCH_EXTENSIONS.get(name) if device != NONE else None


def _wanted(requirements: list[Requirement], extras: Collection[str]) -> list[Requirement]:
    """The requirements whose marker holds, without it. An extra of SGLang may name further ones."""
    known = {extra for one in requirements for extra in _EXTRA.findall(str(one.marker))}
    chosen = {"", *map(canonicalize_name, extras)}
    for missing in sorted(chosen - known - {""}):
        raise ConfigurationError(
            f"SGLang's metadata has no extra {missing!r}", why=f"it has: {', '.join(sorted(known)) or 'none'}"
        )

    def held(one: Requirement) -> bool:
        return one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in chosen)

    own = [one for one in requirements if canonicalize_name(one.name) == HOST]
    while named := {canonicalize_name(extra) for one in own if held(one) for extra in one.extras} - chosen:
        chosen |= named
    return [_without_marker(one) for one in requirements if one not in own and held(one)]


def _parsed(line: str) -> Requirement:
    try:
        return Requirement(line)
    except InvalidRequirement as error:
        raise ConfigurationError(
            f"SGLang's metadata has a requirement that cannot be read: {line!r}",
            why=str(error).partition("\n")[0],
            fix="give another wheel of this release",
        ) from None


def _without_marker(requirement: Requirement) -> Requirement:
    bare = Requirement(str(requirement))
    bare.marker = None
    return bare


def _name(line: Line) -> str:
    return Requirement(line.requirement).name
