"""How the operators are registered, recorded, built and replaced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sglang_platform.example_oot import kernels as names
from sglang_platform.example_oot.kernels import library, native

PROGRAM = Path(__file__).parent / "programs" / "report_backend.py"
builds = pytest.mark.skipif(not native.SOURCES.is_dir(), reason="the package has no C++ part")
FAILING_COMPILER = PROGRAM.with_name("failing_compiler.sh")


def run(tmp_path: Path, **environment: str) -> tuple[dict, str]:
    """What a fresh process reports, and its stderr."""
    result = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if result.returncode:
        return {}, result.stderr
    return json.loads(result.stdout.splitlines()[-1]), result.stderr


class Recorder(TorchDispatchMode):
    """Keeps the operators it sees, as a graph runner does."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[object, tuple, dict]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls.append((function, args, kwargs or {}))
        return function(*args, **(kwargs or {}))


def test_a_recorded_call_replays_on_the_same_tensors():
    x, weight, out = torch.randn(3, 32), torch.rand(32), torch.empty(3, 32)
    with Recorder() as recorder:
        names.rms_norm(x, weight, 1e-6, out)
    assert [str(function) for function, _, _ in recorder.calls] == ["sglang_example_oot.rms_norm.default"]
    x.copy_(torch.randn(3, 32))
    for function, args, kwargs in recorder.calls:
        function(*args, **kwargs)
    expected = torch.empty_like(out)
    library.FALLBACKS["rms_norm"](x, weight, 1e-6, expected)
    assert torch.allclose(out, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted(library.FALLBACKS))
def test_every_operator_returns_nothing_and_declares_what_it_writes(name):
    schema = library.operator(name)._schema
    written = {
        argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write
    }
    assert not schema.returns
    assert written == {
        "fused_add_rms_norm": {"x", "residual"},
        "rotary_embedding": {"q", "k"},
        "short_conv": {"states", "out"},
        "store_kv": {"k_buffer", "v_buffer"},
    }.get(name, {"out"})


def test_operators_run_on_the_meta_device():
    x = torch.empty(2, 8, device="meta")
    names.silu_and_mul(x, torch.empty(2, 4, device="meta"))


def test_plain_torch_serves_where_it_is_chosen(tmp_path):
    report, errors = run(tmp_path, SGLANG_EXAMPLE_OOT_NATIVE="0")
    assert report == {
        "backend": "torch",
        "lazy": True,
        "seen": ["sglang_example_oot.rms_norm.default"],
        "out": [[1.0] * 8] * 2,
    }
    assert "building" not in errors


@pytest.mark.long
@builds
def test_a_failed_build_says_why_and_plain_torch_serves(tmp_path):
    compiler = tmp_path / "c++"
    shutil.copyfile(FAILING_COMPILER, compiler)
    compiler.chmod(0o755)  # a wheel keeps no modes
    broken = {"CXX": str(compiler), "SGLANG_EXAMPLE_OOT_CACHE": str(tmp_path / "cache")}
    report, errors = run(tmp_path, **broken)
    assert report["backend"] == "torch", errors
    assert "could not be built" in errors
    assert "this compiler always fails" in errors
    report, errors = run(tmp_path, **broken)
    assert report["backend"] == "torch"
    assert "building" not in errors, "the failure should have been remembered"
    assert "this compiler always fails" in errors
    report, errors = run(tmp_path, **broken, SGLANG_EXAMPLE_OOT_NATIVE="1")
    assert report == {}
    assert "PlatformError: the CPU kernels could not be built" in errors
    assert not list((tmp_path / "cache").glob("build-*")), "a failed build left its directory"


@builds
def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    report, errors = run(tmp_path, SGLANG_EXAMPLE_OOT_CACHE=str(tmp_path / "file"))
    assert report["backend"] == "torch"
    assert str(tmp_path / "file") in errors


def test_a_value_that_is_neither_is_refused(tmp_path):
    report, errors = run(tmp_path, SGLANG_EXAMPLE_OOT_NATIVE="yes")
    assert report == {}
    assert "SGLANG_EXAMPLE_OOT_NATIVE='yes' is not understood" in errors


@builds
def test_the_cache_is_keyed_by_the_sources(tmp_path, monkeypatch):
    first = native._fingerprint()
    assert native._fingerprint() == first
    shutil.copytree(native.SOURCES, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(native, "SOURCES", tmp_path)
    assert native._fingerprint() == first
    with (tmp_path / "vec.h").open("a") as file:
        file.write("// changed\n")
    assert native._fingerprint() != first
