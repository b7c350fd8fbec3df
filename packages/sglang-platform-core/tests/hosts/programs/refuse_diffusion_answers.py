"""Shows that a plugin's hooks are applied, and that answers of its platform that name no attention are refused."""

# ruff: noqa: E402 -- each import stands where the check first needs it

import pytest
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
for answer, words in (
    ("collections.OrderedDict", "derives from"),
    ("nowhere.Attention", "cannot be imported"),
    (None, "names no class"),
):
    type(platform).answer = answer
    with pytest.raises(HostError, match=words) as refusal:
        platform.get_attn_backend_cls_str(None, 64, None)
    assert "hooked" in str(refusal.value), refusal.value
