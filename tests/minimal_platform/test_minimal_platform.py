"""A platform of a few lines on a device that a torch plugin brings serves on SGLang's own and core's parts; what it may
not leave out is told in one block."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from installed_plugin import Edit, InstalledPlugin

from sglang_platform.conformance.host import reference, served_parts, witness
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess
from warm_interpreter import run_warm

pytestmark = pytest.mark.host

_HERE = Path(__file__).parent
_FILE = "sglang_minimal/platform.py"
_IMPORT = (
    "import vendors_torch_plugin  # noqa: F401 - registers the device with torch, before SGLang asks for it\n"
)
_END = '    supported_kv_dtypes = ("float32", "bfloat16", "float16")\n'
_TYPE = '    device_type = "example_oot"\n'

Install = Callable[..., InstalledPlugin]


def changed(old: str, new: str) -> tuple[Edit, ...]:
    return (Edit(_FILE, old, new),)


def with_method(method: str, body: str) -> tuple[Edit, ...]:
    return changed(_END, f"{_END}\n    def {method}:\n        {body}\n")


@pytest.fixture(scope="session")
def models() -> Path:
    return Path(os.environ.get("SGLANG_PLATFORM_TEST_MODELS", "models")).resolve()


@pytest.fixture
def install(tmp_path: Path) -> Install:
    def installed(*edits: Edit) -> InstalledPlugin:
        plugin = InstalledPlugin("minimal", tmp_path, _HERE)
        plugin.edit(*edits)
        return plugin

    return installed


def settled(plugin: InstalledPlugin, models: Path, **asked: object) -> subprocess.CompletedProcess[str]:
    checkpoint = make_checkpoint(models / "llama")
    program = _HERE / "programs" / "settle_arguments.py"
    variables = plugin.environment(SGLANG_PLATFORM="minimal")
    return run_warm(program, str(checkpoint), json.dumps(asked), timeout=900, environment=variables)


def block_of(said: str, file: Path) -> list[str]:
    """The message, which is all that is said, of at most eight lines; it names the vendor's file."""
    lines = [line for line in said.splitlines() if line and not line.startswith("asking the plugins")]
    assert "Traceback" not in said
    assert len(lines) <= 8, said
    assert f"{file}:" in said
    return lines


def test_the_platform_has_at_most_30_lines() -> None:
    files = (_HERE / "minimal" / "sglang_minimal").glob("*.py")
    assert sum(len(file.read_text().splitlines()) for file in files) <= 30


SERVES_WITHOUT = {
    "nothing": (),
    "a device name": changed('    device_name = "minimal"\n', ""),
    "page sizes": changed("    supported_page_sizes = (1, 16)\n", ""),
    "dtypes": changed(_END, "    pass\n"),
    "Triton, declared": changed(
        _END, f"{_END}    capabilities = PlatformCapabilities(supports_triton=True)\n"
    )
    + changed("import PlatformEnum,", "import PlatformCapabilities, PlatformEnum,"),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("left_out", SERVES_WITHOUT)
def test_what_has_a_default_may_be_left_out(left_out: str, install: Install) -> None:
    document = install(*SERVES_WITHOUT[left_out]).json("info", SGLANG_PLATFORM="minimal")
    assert document["platform"]["device_type"] == "example_oot"


TOLD_BY_INFO = {
    "identity": (changed("    _enum = PlatformEnum.OOT\n", ""), "write _enum = PlatformEnum.OOT"),
    "device type": (changed(_TYPE, ""), 'write device_type = "..."'),
    "a device type of torch's": (
        changed('"example_oot"', '"exampel_oot"'), "write device_type = 'example_oot'; torch knows that device",
    ),
    "the torch plugin": (changed(_IMPORT, ""), "import the torch plugin that registers 'example_oot'"),
    "the torch plugin, imported late": (
        changed(_IMPORT, "") + with_method("init_backend(self)", "import vendors_torch_plugin"),
        "init_backend() runs too late",
    ),
    "the device's answers": (
        changed("(TorchDeviceMixin):", "(DeviceMixin):")
        + changed("import PlatformEnum,", "import DeviceMixin, PlatformEnum,")
        + changed(_IMPORT, f"{_IMPORT}import torch\n"),
        "derive it from TorchDeviceMixin",
    ),
    "a graph runner": (
        changed(_END, f"{_END}    capabilities = PlatformCapabilities(graph_capture=True)\n")
        + changed("import PlatformEnum,", "import PlatformCapabilities, PlatformEnum,"),
        "return a class from get_graph_runner_cls(), or leave out graph_capture=True",
    ),
    "one of two attention backends": (
        with_method("get_attention_backends(self)", 'return {"fast": object, "exact": object}'),
        "return one of fast, exact from get_default_attention_backend()",
    ),
}  # fmt: skip


@pytest.mark.sample(8)
@pytest.mark.parametrize("left_out", TOLD_BY_INFO)
def test_what_may_not_be_left_out_is_told_by_info(left_out: str, install: Install) -> None:
    edits, says = TOLD_BY_INFO[left_out]
    plugin = install(*edits)
    done = plugin.command("info", SGLANG_PLATFORM="minimal")
    assert done.returncode == 1, done.stdout
    lines = block_of(done.stderr, plugin.folder / _FILE)
    assert says in lines[-1]
    assert "minimal (sglang-minimal 1.0)" in lines[1]


TOLD_BY_THE_LAUNCH = {
    "identity": TOLD_BY_INFO["identity"],
    "the torch plugin, imported late": TOLD_BY_INFO["the torch plugin, imported late"],
    "memory that raises": (
        with_method("get_device_total_memory(self, device_id=0)", "return self.driver"),
        "return an int above 0",
    ),
    "memory of no bytes": (
        with_method("get_device_total_memory(self, device_id=0)", "return 0"), "return an int above 0",
    ),
    "memory in words": (
        with_method("get_device_total_memory(self, device_id=0)", "return '24 GB'"), "return an int above 0",
    ),
    "no attention": (
        with_method("get_default_attention_backend(self)", "return None"), "return 'torch_native'",
    ),
    "a misspelt attention": (
        with_method("get_default_attention_backend(self)", "return 'torch_nativ'"), "return 'torch_native'",
    ),
    "Triton's attention without Triton": (
        with_method("get_default_attention_backend(self)", "return 'triton'"), "declare it in capabilities",
    ),
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "left_out",
    [
        pytest.param(name, marks=() if at in (1, 2, 6) else pytest.mark.long)
        for at, name in enumerate(TOLD_BY_THE_LAUNCH)
    ],
)
def test_the_launch_ends_with_one_block(left_out: str, install: Install, models: Path) -> None:
    edits, says = TOLD_BY_THE_LAUNCH[left_out]
    plugin = install(*edits)
    done = settled(plugin, models)
    assert done.returncode == 1, done.stdout
    assert says in block_of(done.stderr, plugin.folder / _FILE)[-1]


def test_sglang_settles_on_the_defaults(install: Install, models: Path) -> None:
    done = settled(install(), models)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "device": "example_oot",
        "attention": "portable_torch",
        "collectives": "example_oot",
        "sampling": "pytorch",
        "compiled": [2.0, 2.0],
        "free": True,
        "index": "example_oot:0",
    }


_GLOO = with_method("get_torch_distributed_backend_str(self)", 'return "gloo"')
REFUSED = {
    "tensor parallel on gloo": (_GLOO, {"tp_size": 2}, "carry tensors of cpu"),
    "pipeline parallel on gloo": (_GLOO, {"pp_size": 2}, "carry tensors of cpu"),
    "an 8-bit cache": ((), {"kv_cache_dtype": "fp8_e4m3"}, "stores keys and values as"),
    "pages of 64": ((), {"page_size": 64}, "works with pages of 1, 16 tokens"),
    "another attention": ((), {"attention_backend": "fa3"}, "portable_torch, torch_native"),
    "drafts": ((), {"speculative_algorithm": "NGRAM"}, "supports_speculative_algorithm('NGRAM') is False"),
    "two halves of a batch": ((), {"enable_two_batch_overlap": True}, "multiprocessors"),
    "fixed order of sums": ((), {"enable_deterministic_inference": True}, "Triton kernels of CUDA"),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "feature",
    [pytest.param(name, marks=() if at < 1 else pytest.mark.long) for at, name in enumerate(REFUSED)],
)
def test_what_is_not_served_is_refused_before_a_worker_runs(
    feature: str, install: Install, models: Path
) -> None:
    edits, asked, why = REFUSED[feature]
    done = settled(install(*edits), models, **asked)
    assert done.returncode == 1, done.stdout
    said = " ".join(done.stderr.split())
    assert "the platform 'minimal'" in said
    assert why in said
    assert "Traceback" not in said


@pytest.mark.engine
@pytest.mark.timeout(1200)
def test_it_serves_the_tokens_of_transformers_and_every_row_is_right(
    install: Install, models: Path, tmp_path: Path
) -> None:
    checkpoint, asked = make_checkpoint(models / "llama"), reference.prompts((5, 40))
    expected = reference.greedy(checkpoint, asked, 16)
    environment = witness.install(tmp_path / "witness", "load_and_describe")
    environment["PYTHONPATH"] = f"{install().sources}{os.pathsep}{environment['PYTHONPATH']}"
    with EngineProcess(
        "minimal", {"model_path": str(checkpoint), "page_size": 16}, environment=environment
    ) as engine:
        replies = engine.call("generate", input_ids=asked, max_new_tokens=16)
        (description,) = witness.served(engine.report_dir)
        rows = served_parts.judge(description, engine.counters(), "minimal", graphs=True)
    assert [reply["output_ids"] for reply in replies] == expected
    assert {row.part: row.server for row in rows} == {
        "device": "the platform",
        "KV pool": "core",
        "paged allocator": "SGLang",
        "attention": "core",
        "fused ops": "SGLang",
        "graph runner": "nobody",
        "sampling": "SGLang",
        "communicator": "nobody",
        "quantisation": "nobody",
    }
    assert [row for row in rows if row.wrong] == []
