"""SGLang's own model registry with plugins' architectures: on use, off when switched off, with causes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.host, pytest.mark.timeout(400)]

_CODE = textwrap.dedent(
    """
    import sys
    from sglang_platform.core import HookRegistry
    from sglang_platform.core.errors import HostError
    from sglang_platform.core.hosts.sglang.seams import model_registry
    from sglang_platform.core.hosts.sglang.versions import facts
    from sglang_platform.core.registries import register_model
    from sglang_platform.core.registries.entries import RegistryError

    model_registry.register_hooks(None, facts())
    register_model("GoodPluginModel", "plugin_models.good:Good")
    register_model("BrokenPluginModel", "plugin_models.broken:Broken")
    register_model("OffPluginModel", "plugin_models.switched_off:Off")
    HookRegistry.apply_hooks()
    from sglang.srt.models.registry import ModelRegistry

    def refused(architecture, *parts):
        try:
            ModelRegistry.resolve_model_cls([architecture])
        except (HostError, RegistryError) as error:
            assert all(part in str(error) for part in parts), error
            return error
        raise AssertionError(f"{architecture} was resolved")

    assert "plugin_models.good" not in sys.modules
    cls, name = ModelRegistry.resolve_model_cls(["GoodPluginModel"])
    assert (cls.__name__, name) == ("Good", "GoodPluginModel")
    error = refused("BrokenPluginModel", "plugin_models.broken:Broken", "a_driver_that_is_not_there")
    assert isinstance(error.__cause__, ModuleNotFoundError)
    refused("OffPluginModel", "switched off", "SGLANG_DISABLED_MODEL_ARCHS names switched_off")
    refused("Qwen3MoeForCausalLM", "switched off", "names qwen3_moe")  # the host's own, by the same variable
    assert "plugin_models.switched_off" not in sys.modules
    assert "sglang.srt.models.qwen3_moe" not in sys.modules
    assert ModelRegistry.resolve_model_cls(["External"])[0].__name__ == "External"  # no other is affected
    print("isolated")
    """
)


def test_architectures_are_isolated_from_each_other(tmp_path: Path) -> None:
    for package, modules in {
        "plugin_models": {
            "good": "class Good: ...",
            "broken": "import a_driver_that_is_not_there\nclass Broken: ...",
            "switched_off": "class Off: ...",
        },
        # With a package of its own the host leaves its hundreds of models unimported.
        "external_models": {"one": "class External: ...\nEntryClass = External"},
    }.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
        for name, source in modules.items():
            (tmp_path / package / f"{name}.py").write_text(source + "\n")
    environment = {name: value for name, value in os.environ.items() if name != "SGLANG_PLATFORM"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CODE],
        env={
            **environment,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
            "SGLANG_EXTERNAL_MODEL_PACKAGE": "external_models",
            "SGLANG_DISABLED_MODEL_ARCHS": "switched_off,qwen3_moe",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "isolated" in run.stdout
