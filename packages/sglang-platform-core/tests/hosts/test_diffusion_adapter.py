"""The adapter against the installed diffusion runtime: one object, re-based classes, translated answers. No server."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

_NAMED = {"SGLANG_DIFFUSION_PLATFORM_OVERRIDE": "example_oot", "SGLANG_EXAMPLE_OOT_DEVICE": "cpu"}


def _run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        env={**os.environ, **_NAMED, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,  # imports of the host, on a machine that may be busy
    )


def test_platform_and_parts_are_the_hosts_and_the_vendors() -> None:
    run = _run(
        """
        import sglang.multimodal_gen.runtime.platforms as host
        from sglang_platform.core import current_mm_platform as ours, current_platform
        assert host.current_platform is ours
        assert isinstance(ours, host.Platform)
        from sglang_platform.example_oot.diffusion.platform import ExampleOOTDiffusionPlatform
        assert isinstance(ours, ExampleOOTDiffusionPlatform) and type(ours).__name__ == "ExampleOOTDiffusionPlatform"
        assert ours._enum is host.PlatformEnum.OOT and ours.is_out_of_tree() and not ours.is_cuda_alike()
        assert host.get_selected_platform_dist() == "sglang-platform-example-oot"

        # The vendor's attention, as the host's selector gets it.
        import torch
        from pkgutil import resolve_name
        from sglang.multimodal_gen.runtime.layers.attention.backends.attention_backend import (
            AttentionBackend, AttentionImpl, AttentionRequirements)
        from sglang.multimodal_gen.runtime.platforms import AttentionBackendEnum
        place = ours.get_attn_backend_cls_str(None, 64, torch.float32)
        backend = resolve_name(place)
        assert backend is ours.get_attn_backend(None, 64, torch.float32)
        assert issubclass(backend, AttentionBackend) and backend.get_enum() is AttentionBackendEnum.TORCH_SDPA
        from sglang_platform.example_oot.diffusion.attention import ExampleOOTDiffusionAttention
        impl = backend.get_impl_cls()
        assert issubclass(impl, AttentionImpl) and issubclass(impl, ExampleOOTDiffusionAttention)
        assert backend.supports_packed_varlen()
        assert backend.unsupported_requirements(AttentionRequirements(packed_varlen=True)) == ()
        layer = impl(num_heads=2, head_size=32, softmax_scale=0.2, causal=False, num_kv_heads=2, prefix="x.impl")
        q = torch.randn(1, 9, 2, 32)
        want = torch.nn.functional.scaled_dot_product_attention(
            *(q.transpose(1, 2) for _ in range(3)), scale=0.2).transpose(1, 2)
        assert (layer.forward(q, q, q, None) - want).abs().max() < 1e-5
        assert layer.forward_into(q, q, q, None, None) is False  # the host's default

        for member in AttentionBackendEnum:
            if member.name == "TORCH_SDPA":
                continue
            try:
                ours.get_attn_backend_cls_str(member, 64, torch.float32)
            except ValueError as error:
                assert member.name in str(error)
            else:
                raise AssertionError(member)

        # The worker's initialisation: once, and the device module complete.
        assert not hasattr(torch.cpu, "reset_peak_memory_stats")
        host.initialize_current_platform()
        host.initialize_current_platform()
        from sglang_platform.core import counter
        assert counter("example_oot.diffusion.backend_initialised").value == 1
        module = torch.get_device_module()
        module.reset_peak_memory_stats()
        assert module.max_memory_allocated() > 0 and len(module.mem_get_info()) == 2
        assert module.get_device_properties(0).total_memory == ours.get_device_total_memory()

        try:
            ours.get_all_to_all_communicator_cls()
        except NotImplementedError as error:
            assert "get_all_to_all_communicator_cls" in str(error)
        else:
            raise AssertionError("the host wants the communicator named")
        """
    )
    assert run.returncode == 0, run.stderr[-3000:]


def test_core_touched_before_the_host_gives_the_same_object() -> None:
    run = _run(
        """
        import sys
        from sglang_platform.core import current_mm_platform as ours
        assert ours.device_name == "example_oot" and "sglang" not in sys.modules
        import sglang.multimodal_gen.runtime.platforms as host
        assert host.current_platform is ours and isinstance(ours, host.Platform)
        """
    )
    assert run.returncode == 0, run.stderr[-3000:]


def test_without_a_plugin_core_shares_the_hosts_own() -> None:
    run = _run(
        """
        import sglang.multimodal_gen.runtime.platforms as host
        from sglang_platform.core import current_mm_platform as ours
        assert ours.device_name == "CPU" and ours.is_cpu() and type(ours) is type(host.current_platform)
        from sglang.multimodal_gen.runtime.platforms.plugins import apply_plugin_hooks
        apply_plugin_hooks()  # core's own plugin runs, and finds both on one platform
        """,
        SGLANG_DIFFUSION_PLATFORM_OVERRIDE="cpu",
    )
    assert run.returncode == 0, run.stderr[-3000:]


def _plugin(folder: Path, name: str, body: str, hooks: str = "") -> dict[str, str]:
    (folder / f"{name}.py").write_text(textwrap.dedent(body))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    points = f"[sglang.multimodal_gen.platforms]\n{name} = {name}:activate\n"
    (info / "entry_points.txt").write_text(points + hooks)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "SGLANG_DIFFUSION_PLATFORM_OVERRIDE": name}


_TOUCH = "from sglang.multimodal_gen.runtime.platforms import current_platform\nprint(current_platform.device_name)\n"


def test_a_refusal_stops_the_host_with_its_reason(tmp_path: Path) -> None:
    environment = _plugin(
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
    run = _run(_TOUCH, **environment)
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


def test_hooks_are_applied_and_answers_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    run = _run(
        """
        import sglang.multimodal_gen.runtime.platforms as host
        from sglang.multimodal_gen.runtime.platforms.plugins import apply_plugin_hooks
        apply_plugin_hooks()
        assert host.get_selected_platform_dist() == 42
        from sglang_platform.core.hooks.registry import HookRegistry
        from sglang_platform.core.plugins import loaded_plugins
        assert [one["plugin"] for one in HookRegistry.report()] == ["sglang_platform_core", "hooked"]
        assert [(one.origin.name, one.state) for one in loaded_plugins()] == [("hooked", "run")]

        from sglang_platform.core.errors import HostError
        platform = host.current_platform
        for answer, words in (("collections.OrderedDict", "derives from"), ("nowhere.Attention", "cannot be imported"),
                              (None, "names no class")):
            type(platform).answer = answer
            try:
                platform.get_attn_backend_cls_str(None, 64, None)
            except HostError as error:
                assert words in str(error) and "hooked" in str(error), error
            else:
                raise AssertionError(answer)
        """,
        **_plugin(tmp_path, "hooked", _HOOKED, _HOOK_POINT),
        TARGET="platforms:get_selected_platform_dist",
    )
    assert run.returncode == 0, run.stderr[-3000:]


def test_a_hook_without_a_target_stops_the_launch(tmp_path: Path) -> None:
    run = _run(
        "from sglang.multimodal_gen.runtime.platforms.plugins import apply_plugin_hooks\napply_plugin_hooks()\n",
        **_plugin(tmp_path, "hooked", _HOOKED, _HOOK_POINT),
        TARGET="platforms.interface:Platform.get_device_nam",
    )
    assert run.returncode == 1
    assert "Platform.get_device_nam" in run.stderr
