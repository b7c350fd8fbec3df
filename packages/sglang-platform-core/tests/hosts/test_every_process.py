"""The platform's hooks are in force in every process that has the platform, whatever it builds first.

Nobody calls SGLang's `load_plugins()` in these programs. Engines, actors under Ray and SGLang's benchmarks are in
`conformance/tests/host/test_every_process.py`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.core.counters import REPORT_DIR_VARIABLE
from sglang_platform.core.sglang.versions import facts

pytestmark = pytest.mark.host

_LONG = 600  # seconds: imports of the host, on a machine that may be busy
_PLUGIN = """
from sglang.srt.server_args import ServerArgs  # whole: plugins are loaded when the import of the host is done
from sglang_platform.core import HookRegistry, HookType

def load():
    for target in {targets!r}:
        HookRegistry.register(target, saying(target), HookType.BEFORE)

def saying(target):
    return lambda *args, **kwargs: print("called", target)
"""
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 256,
    "dtype": "float32",
}
MODEL_CONFIG = "sglang.srt.configs.model_config:ModelConfig.__init__"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Holds a model's configuration; a plugin with hooks of its own is installed."""
    site = tmp_path / "site"
    info = site / "my_hooks-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-hooks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nmy_hooks = my_hooks:load\n")
    targets = [facts().finished_arguments, MODEL_CONFIG]
    (site / "my_hooks.py").write_text(_PLUGIN.format(targets=targets))
    (tmp_path / "config.json").write_text(json.dumps(_CONFIG))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("SGLANG_PLATFORM", "example_oot")
    monkeypatch.setenv(REPORT_DIR_VARIABLE, str(tmp_path / "report"))
    return tmp_path


def report(folder: Path) -> dict[str, Any]:
    """What the one process that ran has reported."""
    (path,) = (folder / "report").glob("process-*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    assert found["platform"]["plugin"]["name"] == "example_oot"
    assert ("my_hooks", "run") in [(one["plugin"]["name"], one["state"]) for one in found["plugins"]]
    assert {one["state"] for one in found["hooks"]} <= {"applied", "pending"}
    return found


@pytest.mark.long
def test_server_args_first(folder: Path, run_program: Any) -> None:
    done = run_program("begin_with_server_args.py", str(folder), timeout=_LONG)
    assert f"called {facts().finished_arguments}" in done.stdout
    hooks = report(folder)["hooks"]
    finished = [one for one in hooks if one["target"] == facts().finished_arguments]
    assert {one["plugin"] for one in finished} == {"sglang_platform_core", "my_hooks"}
    assert {one["state"] for one in finished} == {"applied"}


@pytest.mark.long
def test_server_args_that_the_platform_refuses(folder: Path, run_program: Any) -> None:
    done = run_program("begin_with_server_args.py", str(folder), "cpu", may_fail=True, timeout=_LONG)
    assert done.returncode == 1
    assert "the engine is to run on device 'cpu'" in done.stderr


@pytest.mark.long
def test_a_model_config_first(folder: Path, run_program: Any) -> None:
    done = run_program("begin_with_model_config.py", str(folder), timeout=_LONG)
    assert f"called {MODEL_CONFIG}" in done.stdout
    own = [one for one in report(folder)["hooks"] if one["target"] == MODEL_CONFIG]
    assert {one["state"] for one in own} == {"applied"}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "module", ["sglang.srt.entrypoints.http_server", "sglang.srt.disaggregation.encoder.http_server"]
)
def test_tokenizer_workers_and_encoder_servers(module: str, folder: Path, run_program: Any) -> None:
    run_program("begin_with_a_module.py", module, timeout=_LONG)
    plugins = {
        one["plugin"] for one in report(folder)["hooks"] if one["target"] == facts().finished_arguments
    }
    assert plugins == {"sglang_platform_core", "my_hooks"}


@pytest.mark.long
def test_a_client_loads_no_plugins(folder: Path, run_program: Any) -> None:
    run_program("begin_as_a_client.py", timeout=_LONG)


@pytest.mark.long
def test_plugins_that_were_taken_for_loaded_are_missed_aloud(folder: Path, run_program: Any) -> None:
    done = run_program("load_plugins_too_early.py", timeout=_LONG)
    assert done.stderr.count("hooks of core and of all plugins are missing") == 1
