"""Two plugins that register one thing: refused or warned of at the launch, with both names and the command.

Each case is two throw-away plugins, `aone` and `btwo`, beside the example platform in a real SGLang.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from warm_interpreter import run_warm

pytestmark = pytest.mark.host

_DEFINE = "import torch\ndef register():\n    global lib\n    lib = "
_TORCH = "import torch, types\ndef register():\n    "
_OPERATOR = (
    _DEFINE + "torch.library.Library('acme', 'FRAGMENT')\n"
    "    if not hasattr(torch.ops.acme, 'f'): lib.define('f(Tensor x) -> Tensor')\n"
    "    lib.impl('f', lambda x: x, 'CPU')\n"
)
_PATCH = "import functools\nimport sglang.srt.utils.common as common\ndef register():\n    "
_HOOK = "from sglang_platform.core import HookRegistry, HookType\ndef register():\n    "
_HOSTS_HOOK = _HOOK.replace("sglang_platform.core", "sglang.srt.plugins.hook_registry")
_TARGET = "'sglang.srt.utils.common{}get_bool_env_var', lambda *a, **k: True, HookType.REPLACE"
_PAGED = "'sglang.srt.mem_cache.allocator{}PagedTokenToKVPoolAllocator"
_CLASS = _HOOK.replace("def register", "class Own:\n    def alloc(self, size): return None\ndef register")

REFUSED: dict[str, str] = {
    "library": _DEFINE + "torch.library.Library('acme', 'DEF')",
    "operator": _DEFINE + "torch.library.Library('acme', 'FRAGMENT'); lib.define('f(Tensor x) -> Tensor')",
    "device_module": _TORCH + "torch._register_device_module('hpu', types.ModuleType('hpu'))",
    "storage_locations": _TORCH
    + "torch.serialization.register_package(44, lambda s: None, lambda s, l: None)",
    "compiler": _TORCH + "import torch._dynamo; torch._dynamo.register_backend(lambda g, i: g, name='acme')",
    "models": "def register():\n    from sglang_platform.core.registries import register_model\n"
    "    register_model('AcmeForCausalLM', __name__ + ':Model')",
    "quant_wrappers": "def register():\n    from sglang_platform.core.registries import register_quant_wrapper\n"
    "    register_quant_wrapper('acme', lambda *a: None, lambda *a: None)",
    "pool_factories": "def register():\n    from sglang_platform.core.registries import register_kv_pool_factory\n"
    "    register_kv_pool_factory('acme', lambda *a: False, lambda kind: None)",
}
"""Sources that both plugins have, and of which the second fails."""

TOLD: dict[str, tuple[str, str]] = {
    "kernel": (_OPERATOR, "the kernel of acme::f for CPU"),
    "attention_backend": (
        "def register():\n"
        "    from sglang.srt.layers.attention.attention_registry import register_attention_backend\n"
        "    register_attention_backend('acme')(lambda runner: None)",
        "sglang.srt.layers.attention.attention_registry:ATTENTION_BACKENDS['acme']",
    ),
    "model": (
        "from sglang.srt.models.registry import ModelRegistry\nclass Model: ...\ndef register():\n"
        "    ModelRegistry.models['AcmeForCausalLM'] = Model",
        "sglang.srt.models.registry:ModelRegistry.models['AcmeForCausalLM']",
    ),
    "quantisation": (
        "import sglang.srt.layers.quantization as q\nclass Method: ...\ndef register():\n"
        "    q.QUANTIZATION_METHODS['acme'] = Method",
        "sglang.srt.layers.quantization:QUANTIZATION_METHODS['acme']",
    ),
    "function": (
        _PATCH + "common.get_bool_env_var = lambda *a, **k: False",
        "sglang.srt.utils.common:get_bool_env_var",
    ),
    "wrapped_function": (
        _PATCH + "theirs = common.get_bool_env_var\n"
        "    common.get_bool_env_var = functools.wraps(theirs)(lambda *a, **k: theirs(*a, **k))",
        "sglang.srt.utils.common:get_bool_env_var",
    ),
    "method": (
        "from sglang.srt.server_args import ServerArgs\ndef register():\n"
        "    ServerArgs.check_server_args = lambda self: None",
        "sglang.srt.server_args:ServerArgs.check_server_args",
    ),
    "replace": (
        _HOOK + f"HookRegistry.register({_TARGET.format(':')})",
        "the REPLACE hook of sglang.srt.utils.common.get_bool_env_var",
    ),
    "replace_by_sglangs_registry": (
        _HOSTS_HOOK + f"HookRegistry.register({_TARGET.format('.')})",
        "the REPLACE hook of sglang.srt.utils.common.get_bool_env_var",
    ),
}
"""The source that both plugins have, and the part that is told."""

_MIXED = {
    "both_registries": [TOLD["replace"][0], TOLD["replace_by_sglangs_registry"][0]],
    "method_of_a_replaced_class": [
        _CLASS + f"HookRegistry.register({_PAGED.format(':')}', Own, HookType.REPLACE)",
        _HOOK + f"HookRegistry.register({_PAGED.format(':')}.alloc', lambda r, *a, **k: r)",
    ],
}
_AROUND = _HOOK + "HookRegistry.register('sglang.srt.utils.common:get_bool_env_var', lambda o, *a: o(*a), "
_SILENT = {
    "two_around": [_AROUND + "HookType.AROUND)"] * 2,
    "different_parts": [TOLD["function"][0], TOLD["attention_backend"][0]],
    "replace_and_around": [
        TOLD["replace"][0],
        _HOOK + "HookRegistry.register('sglang.srt.utils.common:get_bool_env_var', "
        "lambda o, *a: o(*a), HookType.AROUND)",
    ],
    "new_modules_of_sglang": ["def register():\n    import sglang.srt.mem_cache.memory_pool"] * 2,
    "sglangs_own_entry": [TOLD["attention_backend"][0].replace("acme", "triton"), "def register(): ..."],
    "constants": [_PATCH + "common.ACME = 1"] * 2,
}
_DEVICE_NAME = _TORCH + "torch.utils.rename_privateuse1_backend('acme')"
_ALONE = {"fails_alone": ["def register(): ...", "def register():\n    raise OSError('driver busy')"]}


def _pair(first: str, second: str, *, one_distribution: bool = False) -> list[list[str]]:
    return [["aone", "aone-dist", first], ["btwo", "aone-dist" if one_distribution else "btwo-dist", second]]


def _cases() -> dict[str, list[list[str]]]:
    cases = {name: _pair(source, source) for name, source in REFUSED.items()}
    cases |= {name: _pair(source, source) for name, (source, _) in TOLD.items()}
    cases |= {name: _pair(*sources) for name, sources in (_MIXED | _SILENT | _ALONE).items()}
    cases["device_name"] = _pair(_DEVICE_NAME, "def register(): ...")
    cases["one_distribution"] = _pair(*[TOLD["function"][0]] * 2, one_distribution=True)
    three = _pair(*[REFUSED["library"]] * 2)
    cases["third_of_three"] = [three[0], ["amiddle", "amiddle-dist", "def register(): ..."], three[1]]
    return cases


@pytest.fixture(scope="module")
def outcomes(asked_names: set[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    asked = asked_names | {"device_name", "fails_alone"}
    cases = {name: plugins for name, plugins in _cases().items() if name in asked}
    folder = tmp_path_factory.mktemp("conflicts")
    (folder / "cases.json").write_text(json.dumps(cases))
    program = Path(__file__).parent / "programs" / "load_conflicting_plugins.py"
    environment = {**os.environ, "SGLANG_PLATFORM": "example_oot"}
    words = (str(folder / "cases.json"), str(folder))
    done = run_warm(program, *words, timeout=1200, environment=environment)
    assert done.returncode == 0, done.stderr
    files = {name: folder / name / "outcome.json" for name in cases}
    assert all(file.exists() for file in files.values()), done.stderr
    return {name: json.loads(file.read_text()) for name, file in files.items()}


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", [*REFUSED, "third_of_three"])
def test_two_plugins_of_which_the_second_fails_are_both_named(outcomes: dict[str, Any], name: str) -> None:
    kind, text = outcomes[name]["error"]
    assert kind == "PluginConflict", text
    assert "aone (aone-dist 1.0) and btwo (btwo-dist 1.0) cannot be loaded in one process" in text
    assert "pip uninstall aone-dist or pip uninstall btwo-dist" in text
    assert "SGLANG_PLUGINS=sglang_platform_core," in text
    assert "each can be loaded without the other; with aone loaded first" in text


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", TOLD)
def test_a_part_that_two_plugins_set_is_told(outcomes: dict[str, Any], name: str) -> None:
    assert outcomes[name]["error"] is None
    (text,) = outcomes[name]["conflicts"]
    assert f"aone (aone-dist 1.0) and btwo (btwo-dist 1.0) both set {TOLD[name][1]}" in text
    assert "pip uninstall aone-dist or pip uninstall btwo-dist" in text


@pytest.mark.parametrize("name", _MIXED)
def test_hooks_of_two_kinds_on_one_target_are_told(outcomes: dict[str, Any], name: str) -> None:
    (text,) = outcomes[name]["conflicts"]
    assert "aone (aone-dist 1.0) and btwo (btwo-dist 1.0) both set the " in text


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [*_SILENT, "one_distribution"])
def test_plugins_that_go_together_are_not_told(outcomes: dict[str, Any], name: str) -> None:
    assert outcomes[name] == {"error": None, "conflicts": []}


def test_a_plugin_that_fails_beside_the_platform_names_both(outcomes: dict[str, Any]) -> None:
    kind, text = outcomes["device_name"]["error"]
    assert kind == "PluginConflict", text
    assert text.startswith("example_oot (sglang-platform-example-oot ")
    assert "and aone (aone-dist 1.0) cannot be loaded in one process" in text


def test_a_plugin_that_fails_alone_is_no_conflict(outcomes: dict[str, Any]) -> None:
    kind, text = outcomes["fails_alone"]["error"]
    assert kind == "PluginFailed"
    assert "general plugin 'btwo' failed" in text
