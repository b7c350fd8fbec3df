"""Shows that the host's registry resolves good architectures and refuses broken and switched-off ones by cause."""

# ruff: noqa: E402 -- each import stands where the check first needs it

import sys

import pytest

from sglang_platform.core import HookRegistry
from sglang_platform.core.registries import register_model
from sglang_platform.core.registries.registry import RegistryError
from sglang_platform.core.sglang.registries import model_architectures
from sglang_platform.core.sglang.versions import facts

model_architectures.register_hooks(None, facts())
register_model("GoodPluginModel", "plugin_models.good:Good")
register_model("BrokenPluginModel", "plugin_models.broken:Broken")
register_model("OffPluginModel", "plugin_models.switched_off:Off")
HookRegistry.apply_hooks()
from sglang.srt.models.registry import ModelRegistry


def refused(architecture, *parts):
    with pytest.raises(RegistryError) as refusal:
        ModelRegistry.resolve_model_cls([architecture])
    assert all(part in str(refusal.value) for part in parts), refusal.value
    return refusal.value


assert "plugin_models.good" not in sys.modules
cls, name = ModelRegistry.resolve_model_cls(["GoodPluginModel"])
assert (cls.__name__, name) == ("Good", "GoodPluginModel")
error = refused("BrokenPluginModel", "plugin_models.broken:Broken", "a_driver_that_is_not_there")
assert isinstance(error.__cause__, ModuleNotFoundError)
refused("OffPluginModel", "switched off", "SGLANG_DISABLED_MODEL_ARCHS names switched_off")
assert "plugin_models.switched_off" not in sys.modules
assert ModelRegistry.resolve_model_cls(["External"])[0].__name__ == "External"  # no other is affected
print("isolated")
