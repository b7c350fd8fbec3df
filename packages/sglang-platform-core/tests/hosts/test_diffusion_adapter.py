"""The adapter against the installed diffusion runtime: one object, re-based classes, translated answers. No server."""

from __future__ import annotations

import ast
import os
import textwrap
from pathlib import Path

import pytest

from sglang_platform.core.sglang.diffusion.platform import HOST_ATTENTION, HOST_COMMUNICATOR

pytestmark = pytest.mark.host

_LONG = 600  # seconds: imports of the host, on a machine that may be busy


@pytest.fixture(autouse=True)
def _on_the_example(monkeypatch) -> None:
    monkeypatch.setenv("SGLANG_DIFFUSION_PLATFORM_OVERRIDE", "example_oot")
    monkeypatch.setenv("SGLANG_EXAMPLE_OOT_DEVICE", "cpu")


def test_platform_and_parts_are_the_hosts_and_the_vendors(run_program) -> None:
    run_program("share_the_diffusion_platform.py", timeout=_LONG)


def test_core_touched_before_the_host_gives_the_same_object(run_program) -> None:
    run_program("touch_core_before_the_diffusion_host.py", timeout=_LONG)


@pytest.mark.long
def test_without_a_plugin_core_shares_the_hosts_own(monkeypatch, run_program) -> None:
    monkeypatch.setenv("SGLANG_DIFFUSION_PLATFORM_OVERRIDE", "cpu")
    run_program("share_the_diffusion_hosts_own.py", timeout=_LONG)


def _plugin(monkeypatch, folder: Path, name: str, body: str, hooks: str = "") -> None:
    """Write a plugin that the host's processes find, and name it as their platform."""
    (folder / f"{name}.py").write_text(textwrap.dedent(body))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    points = f"[sglang.multimodal_gen.platforms]\n{name} = {name}:activate\n"
    (info / "entry_points.txt").write_text(points + hooks)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("SGLANG_DIFFUSION_PLATFORM_OVERRIDE", name)


@pytest.mark.long
def test_a_refusal_stops_the_host_with_its_reason(tmp_path: Path, monkeypatch, run_program) -> None:
    _plugin(
        monkeypatch,
        tmp_path,
        "claims_cuda",
        """
        from sglang_platform.core import MMPlatform, PlatformEnum, mm_platform_plugin
        @mm_platform_plugin
        def activate():
            return "claims_cuda:Platform"
        class Platform(MMPlatform):
            _enum = PlatformEnum.CUDA
            device_name = "claims"
        """,
    )
    run = run_program("name_the_diffusion_platform.py", may_fail=True, timeout=_LONG)
    assert run.returncode == 1
    assert "_enum CUDA" in run.stderr
    assert "claims_cuda 1.0" in run.stderr


_HOOKED = """
from sglang_platform.core import HookRegistry, MMPlatform, PlatformEnum, mm_platform_plugin

@mm_platform_plugin
def activate():
    return "hooked:Platform"

class Platform(MMPlatform):
    _enum = PlatformEnum.OOT
    device_name = "hooked"
    device_type = "cpu"
    dispatch_key = "CPU"
    answer = None
    extra_public_names = frozenset({"answer"})

    def get_attn_backend_cls_str(self, selected_backend, head_size, dtype):
        return self.answer

def hooks():
    import os
    target = "sglang.multimodal_gen.runtime." + os.environ["TARGET"]
    HookRegistry.register(target, lambda result, *args: 42)
"""
_HOOK_POINT = "[sglang.multimodal_gen.plugins]\nhooked = hooked:hooks\n"


@pytest.mark.long
def test_hooks_are_applied_and_answers_that_cannot_be_used_are_refused(
    tmp_path: Path, monkeypatch, run_program
) -> None:
    _plugin(monkeypatch, tmp_path, "hooked", _HOOKED, _HOOK_POINT)
    monkeypatch.setenv("TARGET", "platforms:get_selected_platform_dist")
    run_program("refuse_diffusion_answers.py", timeout=_LONG)


@pytest.mark.long
def test_a_hook_without_a_target_stops_the_launch(tmp_path: Path, monkeypatch, run_program) -> None:
    _plugin(monkeypatch, tmp_path, "hooked", _HOOKED, _HOOK_POINT)
    monkeypatch.setenv("TARGET", "platforms.interface:Platform.get_device_nam")
    run = run_program("apply_diffusion_hooks.py", may_fail=True, timeout=_LONG)
    assert run.returncode == 1
    assert "Platform.get_device_nam" in run.stderr


def test_the_hosts_own_classes_exist() -> None:
    sglang = pytest.importorskip("sglang")
    for location in (HOST_ATTENTION, HOST_COMMUNICATOR):
        _, *folders, name = location.split(".")
        source = Path(sglang.__path__[0]).joinpath(*folders).with_suffix(".py").read_text()
        classes = {node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
        assert name in classes, location
