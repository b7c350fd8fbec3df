"""Plugins written into a folder, as `pip install` would leave them: what function mutants start from."""

from __future__ import annotations

from pathlib import Path

from mutant import Installed

NAME = "mutant_device"
PACKAGE = "mutant_platform"

ACTIVATE = f'''from sglang_platform.core import platform_plugin

@platform_plugin
def activate():
    return "{PACKAGE}.platform:Platform"
'''

PLATFORM = """from sglang_platform.core import DeviceMixin, PlatformEnum, SRTPlatform


class Device(DeviceMixin):
    _enum = PlatformEnum.OOT
    device_name = "mutant"
    device_type = "cpu"

    def get_device(self, device_id=0):
        import torch

        return torch.device("cpu")

    def set_device(self, device):
        pass

    def get_device_name(self, device_id=0):
        return "a healthy device"

    def get_device_uuid(self, device_id=0):
        return "mutant-0"

    def get_device_capability(self, device_id=0):
        return None

    def get_device_total_memory(self, device_id=0):
        import os

        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def get_available_memory(self, device_id=0):
        total = self.get_device_total_memory(device_id)
        return total // 2, total

    def get_current_memory_usage(self, device=None):
        return float(self.get_device_total_memory() // 2)


class Platform(SRTPlatform, Device):
    def get_default_attention_backend(self):
        return "torch_native"
"""

CONTRACT = f"[sglang_platform.contract]\n{NAME} = v1\n"
REQUIRES = ("sglang-platform-core", "torch")


def write_plugin(
    folder: Path,
    *,
    activate: str = ACTIVATE,
    platform: str = PLATFORM,
    entry_points: str = f"[sglang.srt.platforms]\n{NAME} = {PACKAGE}:activate\n",
    contract: str = CONTRACT,
    requires: tuple[str, ...] = REQUIRES,
    files: dict[str, str] | None = None,
    distribution: str = "mutant-platform",
) -> Installed:
    """A plugin on core's contract in `folder`, healthy but for what is given. `files`: path in the folder to text."""
    package = folder / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(activate)
    (package / "platform.py").write_text(platform)
    write_metadata(folder, distribution, entry_points + contract, requires)
    for name, text in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Installed(NAME)


def write_metadata(
    folder: Path, distribution: str, entry_points: str, requires: tuple[str, ...] = ()
) -> None:
    """The `.dist-info` of a distribution."""
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    lines = [f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"]
    lines += [f"Requires-Dist: {name}\n" for name in requires]
    (info / "METADATA").write_text("".join(lines))
    (info / "entry_points.txt").write_text(entry_points)
