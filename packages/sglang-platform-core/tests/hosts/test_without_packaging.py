"""Development without packaging, in SGLang: the platform class is named by a variable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PLATFORM = """
import types

import torch

from sglang_platform.core import PlatformEnum, SRTPlatform

torch.utils.rename_privateuse1_backend("acme_device")
torch._register_device_module("acme_device", types.ModuleType("acme_device"))


class Acme(SRTPlatform):
    _enum, device_name, device_type = PlatformEnum.OOT, "acme", "acme_device"
    extra_public_names = ("own_answer",)

    def get_device(self, device_id=0): ...

    def get_device_total_memory(self, device_id=0): ...

    def get_current_memory_usage(self, device=None): ...

    def own_answer(self):
        return "acme's"
"""


@pytest.mark.sample(2)
@pytest.mark.host
@pytest.mark.parametrize("value", ["acme=acme_sources.device:Acme", "acme_sources.device.Acme"])
def test_a_class_without_a_distribution_serves(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_program
) -> None:
    """One of the installed platforms answers SGLang for it: only platforms are asked before SGLang has decided."""
    (tmp_path / "acme_sources").mkdir()
    (tmp_path / "acme_sources" / "device.py").write_text(PLATFORM)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("SGLANG_PLATFORM_PLUGIN", value)
    monkeypatch.delenv("SGLANG_PLATFORM", raising=False)
    run_program("serve_without_packaging.py", timeout=600)
