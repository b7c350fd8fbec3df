"""A vendor's name in every spelling that a package needs, and the check of unusable names."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from sglang_platform.core.contract.types import PlatformEnum
from sglang_platform.core.errors import ConfigurationError

__all__ = ["TORCH_DEVICE_TYPES", "VendorNames"]

TORCH_DEVICE_TYPES = frozenset(
    {"cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla"}
    | {"lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"}
)
"""Device types that torch has already; it refuses to give one of these names to a device of a plugin."""

_TAKEN = frozenset({"core", "devtools", "conformance", "example", "example-oot", "sglang", "torch"})
_LONGEST = 40


@dataclass(frozen=True)
class VendorNames:
    """The replacements of the example's names; created by `VendorNames.of`."""

    name: str
    """As a distribution writes it: `my-device`."""

    device_type: str
    """The type of `torch.device`."""

    @classmethod
    def of(cls, name: str, device_type: str | None = None) -> VendorNames:
        """The names for a vendor. Raises ConfigurationError with the reason for an unusable name or device type."""
        normal = name.replace("_", "-")
        reason = _reason_against(name, normal)
        if reason:
            raise ConfigurationError(
                f"{name!r} cannot be the name of a platform package",
                why=reason,
                fix="choose lower-case words with hyphens between them, as in my-device",
            )
        chosen = device_type if device_type is not None else normal.replace("-", "_")
        reason = _reason_against_device_type(chosen)
        if reason:
            raise ConfigurationError(
                f"{chosen!r} cannot be the copy's torch device type",
                why=reason,
                fix="choose another with --device-type, as in my_device. A platform for a device that torch knows "
                "already starts from a copy under any other type and drops its torch_device folder",
            )
        return cls(normal, chosen)

    @property
    def snake(self) -> str:
        return self.name.replace("-", "_")

    @property
    def distribution(self) -> str:
        return f"sglang-platform-{self.name}"

    @property
    def package(self) -> str:
        """The import name. Top-level, since `sglang_platform` is the namespace of this project."""
        return f"sglang_platform_{self.snake}"

    @property
    def classes(self) -> str:
        """The prefix of class names: `MyDevice`."""
        return "".join(word.capitalize() for word in self.name.split("-"))

    def replacements(self) -> list[tuple[str, str]]:
        """(the example's text, the vendor's), to be applied in this order."""
        return [
            ('NAME = "example_oot"', f'NAME = "{self.device_type}"'),
            ("GraphImplRegistry, EXAMPLE_OOT", f"GraphImplRegistry, {self.device_type.upper()}"),
            ("torch.example_oot", f"torch.{self.device_type}"),
            ("sglang-platform-example-oot", self.distribution),
            ("sglang_platform.example_oot", self.package),
            ("sglang_platform/example_oot", self.package),
            ("sglang_example_oot", f"sglang_{self.snake}"),
            ("SGLANG_EXAMPLE_OOT", f"SGLANG_{self.snake.upper()}"),
            ("ExampleOOT", self.classes),
            ("EXAMPLE_OOT", self.snake.upper()),
            ("example_oot", self.snake),
            ("example-oot", self.name),
            ("example device", f"{self.name} device"),
        ]

    def replace(self, text: str) -> str:
        """`text` under the vendor's names."""
        for old, new in self.replacements():
            text = text.replace(old, new)
        return text


def _reason_against(name: str, normal: str) -> str | None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", normal):
        return (
            "it must be lower-case letters, digits and single hyphens or underscores, and begin with a letter"
        )
    if len(normal) > _LONGEST:
        return (
            f"it has {len(normal)} characters, and class and library names are made of it: {_LONGEST} at most"
        )
    if normal in _TAKEN:
        return "this project has a package of that name"
    if normal.replace("-", "_") in {member.name.lower() for member in PlatformEnum}:
        return "SGLang has a platform of that name, and takes the name for its own"
    if keyword.iskeyword(normal):
        return "it is a word of Python"
    return None


def _reason_against_device_type(device_type: str) -> str | None:
    if not re.fullmatch(r"[a-z][a-z_]*[a-z0-9_]*", device_type) or device_type.endswith("_"):
        return "a torch device type is lower-case letters, digits and underscores, and begins with a letter"
    if device_type in TORCH_DEVICE_TYPES:
        return "torch has a device of that type"
    if keyword.iskeyword(device_type):
        return "it is a word of Python, and torch makes attributes of it"
    return None
