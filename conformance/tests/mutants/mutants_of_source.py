"""Level 2 mutants that the source gives away, on any machine, without the device's library."""

from __future__ import annotations

from pathlib import Path

from mutant import Installed, mutant
from plugins import PACKAGE, PLATFORM, write_plugin, write_with_hooks

# A plugin written on SGLang's classes, which knows nothing of core.
DIRECT_ACTIVATE = f'def activate():\n    return "{PACKAGE}.platform:Platform"\n'
DIRECT = PLATFORM.replace(
    "from sglang_platform.core import DeviceMixin, PlatformEnum, SRTPlatform\n",
    "from sglang.srt.platforms.device_mixin import DeviceMixin, PlatformEnum\n"
    "from sglang.srt.platforms.interface import SRTPlatform\n",
)


def _direct(folder: Path, addition: str = "", text: str = DIRECT) -> Installed:
    return write_plugin(
        folder, activate=DIRECT_ACTIVATE, platform=text + addition, contract="", requires=("sglang", "torch")
    )


@mutant(
    check="contract.overrides_are_called",
    defect="support_cuda_graph() is overridden, which SGLang does not call since 0.5.23: decoding goes eager, silently",
    says="support_cuda_graph",
)
def dead_override(folder: Path) -> Installed:
    return _direct(folder, "\n    def support_cuda_graph(self):\n        return True\n")


@mutant(
    check="contract.overrides_are_called",
    defect="the device mixin comes last, so SGLang's base class answers instead of it",
    says="never reached",
)
def unreached_override(folder: Path) -> Installed:
    text = DIRECT.replace("class Device(DeviceMixin):", "class Device:").replace(
        "(SRTPlatform, Device)", "(SRTPlatform, Device)"
    )
    return _direct(folder, text=text)


@mutant(
    check="contract.overrides_take_the_hosts_calls",
    defect="get_kv_pool_cls(self) lost the keyword with which SGLang asks for the kind",
    says="get_kv_pool_cls",
)
def lost_parameter(folder: Path) -> Installed:
    return _direct(folder, "\n    def get_kv_pool_cls(self):\n        return None\n")


@mutant(
    check="contract.hook_targets_exist",
    defect="a hook is registered on a method that SGLang renamed",
    says="get_next_batch",
)
def hook_on_a_renamed_method(folder: Path) -> Installed:
    return _hooked(
        folder,
        "HookRegistry.register(\n"
        "        'sglang.srt.managers.scheduler:Scheduler.get_next_batch_to_rum', lambda result, *a, **k: None\n"
        "    )\n",
    )


@mutant(
    check="contract.hook_targets_exist",
    defect="a hook that times the next batch forgets to hand it on",
    says="it gives nothing",
)
def hook_that_loses_the_batch(folder: Path) -> Installed:
    return _hooked(
        folder,
        "def timed(original, self, *args, **kwargs):\n        original(self, *args, **kwargs)\n\n"
        "    HookRegistry.register(\n"
        "        'sglang.srt.managers.scheduler:Scheduler.get_next_batch_to_run', timed, HookType.AROUND\n    )\n",
    )


def _hooked(folder: Path, body: str) -> Installed:
    imported = "from sglang_platform.core import HookRegistry, HookType\n\n\n"
    return write_with_hooks(folder, f"{imported}def load():\n    {body}")


@mutant(
    check="contract.host_imports_exist",
    defect="a factory imports a module that SGLang has moved: it fails when the pool is built, minutes after start",
    says="has no 'paged_pool'",
)
def factory_imports_a_lost_module(folder: Path) -> Installed:
    factory = (
        "\n    def get_paged_allocator_cls(self):\n"
        "        from sglang.srt.mem_cache.paged_pool import PagedTokenToKVPoolAllocator\n"
        "        return PagedTokenToKVPoolAllocator\n"
    )
    return write_plugin(folder, platform=PLATFORM + factory)


@mutant(
    check="contract.host_imports_exist",
    defect="a name is imported that the module no longer has",
    says="has no 'TorchNativeAttentionBackend'",
)
def imports_a_lost_name(folder: Path) -> Installed:
    text = PLATFORM + (
        "\n    def init_backend(self):\n"
        "        from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttentionBackend\n"
        "        self._backend = TorchNativeAttentionBackend\n"
    )
    return write_plugin(folder, platform=text)
