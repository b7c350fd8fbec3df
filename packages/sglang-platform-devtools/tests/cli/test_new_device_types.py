"""Device types that `sglang-platform new` refuses and takes: torch is asked before a file is written."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sglang_platform.core.cli.app import app
from sglang_platform.core.contract.values import value_problem
from sglang_platform.core.errors import ConfigurationError
from sglang_platform.devtools.template import names as template_names
from sglang_platform.devtools.template import torch_device
from sglang_platform.devtools.template.names import VendorNames

REFUSED = {
    "acme2": "lower-case letters and underscores",
    "2acme": "lower-case letters and underscores",
    "Acme": "lower-case letters and underscores",
    "a-b": "lower-case letters and underscores",
    "acme npu": "lower-case letters and underscores",
    "acmé": "lower-case letters and underscores",
    "acme:0": "carries no index",
    "": "not a non-empty str",
    "import": "word of Python",
    "a" * 41: "41 characters",
    "example_oot": "the example's name",
    "cpux": "SGLang takes every device type that begins so",
    "cuda_like": "SGLang takes every device type that begins so",
    "npux": "SGLang takes every device type that begins so",
    "hip": "torch has a device of that type",
    "meta": "torch has a device of that type",
    "ideep": "torch has a device of that type",
    "privateuseone": "torch has a device of that type",
    "mpsx": "torch.load takes the location 'mpsx' for the device mps",
    "nn": "torch.nn exists",
    "onnx": "torch.onnx exists",  # a module that `import torch` does not load
    "os": "torch.os exists",
    "float": "torch.float exists",
    "train": "torch.nn.modules.module.Module'> has already been registered with train",
    "is_cpu": "torch.Tensor'> has already been registered with is_cpu",
}


@pytest.mark.sample(27)
@pytest.mark.parametrize(("device_type", "reason"), REFUSED.items())
def test_an_unusable_device_type_is_refused_and_another_named(device_type: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the copy's torch device type") as refused:
        VendorNames.of("acme", device_type)
    assert refused.value.why is not None
    assert reason in refused.value.why
    assert refused.value.fix is not None
    suggested = refused.value.fix.partition("--device-type ")[2].partition(" ")[0]
    assert VendorNames.of("acme", suggested).device_type == suggested


@pytest.mark.sample(8)
@pytest.mark.parametrize("device_type", ["acme", "acme_npu", "_acme", "json", "string", "m", "metax", "hpux"])
def test_a_device_type_that_torch_takes_is_taken(device_type: str) -> None:
    assert VendorNames.of("acme", device_type).device_type == device_type


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["acme2", "mi-300", "nn", "os"])
def test_a_name_whose_device_type_is_refused_leaves_nothing(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["new", name, "--dir", str(tmp_path / "copy")])
    assert result.exit_code == 1, result.output
    assert "nothing was written" in result.output
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "better"),
    [("My Device", "my-device"), ("9lives", "lives"), ("cuda", "cuda-device"), ("--", "my-device")],
)
def test_a_refused_name_comes_with_one_that_would_do(name: str, better: str) -> None:
    with pytest.raises(ConfigurationError, match=f"sglang-platform new {better} would do"):
        VendorNames.of(name)


def test_without_torch_nobody_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_device, "find_spec", lambda name: None)
    torch_device.torchs_refusal.cache_clear()
    with pytest.raises(ConfigurationError, match="torch is not installed here"):
        VendorNames.of("another")


def test_a_torch_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch_cpu.so: cannot open')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    torch_device.torchs_refusal.cache_clear()
    with pytest.raises(ConfigurationError, match="could not be asked: ImportError: libtorch_cpu"):
        VendorNames.of("another")


def test_core_does_not_import_torch_to_ask() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from sglang_platform.devtools.template.names import VendorNames;"
            "VendorNames.of('acme'); sys.exit('torch' in sys.modules)",
        ]
    )
    assert done.returncode == 0


@settings(max_examples=500, deadline=None)
@given(st.text(st.sampled_from("aZz_09-:.é "), max_size=6) | st.text(max_size=8))
def test_the_contract_refuses_what_torchs_parser_refuses(device_type: str) -> None:
    """Of torch's two refusals, one is for text that no device can have, one for a device that is not there yet."""
    try:
        parses = torch.device(device_type).index is None
    except RuntimeError as error:
        parses = "Expected one of" in str(error)
    taken = parses and device_type == device_type.lower() and ":" not in device_type
    assert (value_problem("device_type", device_type) is None) is taken


def test_the_prefixes_are_those_that_sglang_tests() -> None:
    found = find_spec("sglang")
    if found is None or found.origin is None:
        pytest.skip("SGLang is not installed here")
    call = re.compile(r'device\)?\.startswith\(\(?((?:"\w+"(?:, )?)+)')
    texts = (path.read_text(encoding="utf-8") for path in (Path(found.origin).parent / "srt").rglob("*.py"))
    tested = {
        prefix for text in texts for given in call.findall(text) for prefix in re.findall(r"\w+", given)
    }
    assert tested == set(template_names._PREFIXES_OF_HOST)
