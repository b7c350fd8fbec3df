"""A vendor's name in every spelling that a package needs, and the check of unusable names."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from sglang_platform.core.contract.types import PlatformEnum
from sglang_platform.core.contract.values import value_problem
from sglang_platform.core.errors import ConfigurationError
from sglang_platform.devtools.template.torch_device import torchs_refusal
from sglang_platform.devtools.template.torch_plugin import device_type_of

__all__ = ["VendorNames"]

_TAKEN = frozenset({"core", "devtools", "conformance", "example", "example-oot", "sglang", "torch"})
_EXAMPLE = "example-oot"
_LONGEST = 40
_PREFIXES_OF_HOST = ("cpu", "cuda", "npu", "xpu")
"""SGLang 0.5.23 tests device strings with `startswith` for these, in `arg_groups/speculative_hook.py` and others."""


@dataclass(frozen=True)
class VendorNames:
    """The replacements of the example's names; created by `VendorNames.of`."""

    name: str
    """As a distribution writes it: `my-device`."""

    device_type: str
    """The type of `torch.device`."""

    @classmethod
    def of(cls, name: str, device_type: str | None = None, torch_plugin: str | None = None) -> VendorNames:
        """The names for a vendor, after torch was asked for the device type, with the torch plugin where one brings it.

        Raises ConfigurationError with the reason for an unusable name or device type, and a name that would do.
        """
        normal = name.replace("_", "-")
        reason = _reason_against(name, normal)
        if reason:
            raise ConfigurationError(
                f"{name!r} cannot be the name of a platform package",
                why=reason,
                fix=f"nothing was written; sglang-platform new {_usable_name(name)} would do",
            )
        if torch_plugin is not None:
            return cls(normal, device_type_of(torch_plugin, device_type))
        chosen = device_type if device_type is not None else normal.replace("-", "_")
        reason = _reason_against_device_type(chosen)
        if reason:
            raise ConfigurationError(
                f"{chosen!r} cannot be the copy's torch device type",
                why=reason,
                fix=f"nothing was written; sglang-platform new {name} --device-type {_usable_device_type(chosen)} "
                "would do. For a device that torch has already, by a plugin of torch's: --torch-plugin MODULE",
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
    if _EXAMPLE in normal:
        return f"it has the example's name {_EXAMPLE!r} in it, which the copy replaces"
    if normal.replace("-", "_") in {member.name.lower() for member in PlatformEnum}:
        return "SGLang has a platform of that name, and takes the name for its own"
    if keyword.iskeyword(normal):
        return "it is a word of Python"
    return None


def _reason_against_device_type(device_type: str) -> str | None:
    problem = value_problem("device_type", device_type)
    if problem is not None:
        return f"it {problem}"
    if len(device_type) > _LONGEST:
        return f"it has {len(device_type)} characters: {_LONGEST} at most"
    if keyword.iskeyword(device_type):
        return "it is a word of Python, and torch makes attributes of it"
    if _EXAMPLE in device_type.replace("_", "-"):
        return f"it has the example's name {_EXAMPLE!r} in it, which the copy replaces"
    if device_type.startswith(_PREFIXES_OF_HOST):
        return (
            "SGLang takes every device type that begins so for a device of its own: "
            f"{', '.join(_PREFIXES_OF_HOST)}"
        )
    return torchs_refusal(device_type)


def _usable_name(name: str) -> str:
    """A name close to a refused one that is not refused."""
    words = (
        re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")[: _LONGEST - len("-device")].strip("-")
    )
    close = (words, f"{words}-device")
    return next((one for one in close if _reason_against(one, one) is None), "my-device")


def _usable_device_type(device_type: str) -> str:
    """A device type close to a refused one, which torch takes."""
    words = re.sub(r"[^a-z_]", "", device_type.lower().replace("-", "_"))[: _LONGEST - len("my_")].strip("_")
    close = (words, f"my_{words}")
    return next((one for one in close if words and _reason_against_device_type(one) is None), "my_device")
