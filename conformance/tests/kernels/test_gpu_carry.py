"""The check of wheels that are carried to the machine with the card."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.check import registered

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
ANY, OLD, NEW = "py3-none-any", "cp311-cp311-manylinux_2_17_x86_64", "cp312-cp312-linux_x86_64"
MACHINE = {"torch": "2.11.0", "numpy": "", "transformers": "5.17.0"}


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("gpu_carry")
    tags = importlib.import_module("packaging.tags")
    linux = lambda: iter(["linux_x86_64", "manylinux_2_17_x86_64"])  # noqa: E731
    monkeypatch.setattr(tags, "platform_tags", linux)
    monkeypatch.setattr(module, "of_our_packages", list)

    def of(*wheels: tuple[str, str, list[str]]) -> list[str]:
        for name, tag, requires in wheels:
            with zipfile.ZipFile(tmp_path / f"{name}-{tag}.whl", "w") as archive:
                lines = ["Metadata-Version: 2.1", *(f"Requires-Dist: {need}" for need in requires)]
                archive.writestr(f"{name}.dist-info/METADATA", "\n".join(lines) + "\n\n")
        return list(module.faults(tmp_path, "3.12", MACHINE))

    return of


@pytest.mark.parametrize(
    ("wheels", "words"),
    [
        ([], "holds no wheel"),
        ([("rpds_py-1.0", OLD, [])], "is not for Python 3.12"),
        ([("jsonschema-4.0", ANY, ["rpds-py>=0.7"])], "requires rpds-py>=0.7, of which there is no wheel"),
        ([("jsonschema-4.0", ANY, ["rpds-py>=0.7"]), ("rpds_py-0.1", NEW, [])], "the wheel is of 0.1"),
        ([("a-1.0", ANY, ["transformers==5.12.1"])], "the machine has 5.17.0"),
        ([("transformers-5.12.1", ANY, ["torch<2"])], "the machine has 2.11.0"),
        ([("a-1.0", ANY, ['tomli; python_version < "3.13"'])], "requires tomli"),
    ],
)
def test_what_is_wrong_is_named(faults: Any, wheels: list[Any], words: str) -> None:
    (line,) = faults(*wheels)
    assert words in line


@pytest.mark.parametrize(
    "wheels",
    [
        [("jsonschema-4.0", ANY, ["rpds-py>=0.7", "torch", "numpy>=1"]), ("rpds_py-1.0", NEW, [])],
        [("a-1.0", ANY, ['tomli; python_version < "3.12"', 'pytest; extra == "test"'])],
        [("sglang-0.5", ANY, ["transformers==5.12.1"]), ("transformers-5.12.1", ANY, ["torch>=2"])],
        [("sglang-0.5", ANY, ["sglang-kernel==0.4", "xgrammar"])],
        [("Mark_Up-1.0", "cp38-abi3-manylinux_2_17_x86_64", [])],
    ],
)
def test_a_whole_folder_is_good(faults: Any, wheels: list[Any]) -> None:
    assert faults(*wheels) == []


def test_the_machine_is_a_list_of_distributions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    light = importlib.import_module("gpu_light")
    listed = tmp_path / "machine.txt"
    listed.write_text("# of a machine\nTorch==2.11.0\nruamel_yaml\n\n")
    assert light.installed_on(listed) == {"torch": "2.11.0", "ruamel-yaml": ""}
    committed = light.installed_on(BENCHMARKS / "gpu_machine.txt")
    assert committed["triton"] == "3.6.0"
    assert not {"sglang", "xgrammar", "sglang-kernel", "flashinfer-python"} & set(committed)


def test_only_what_is_carried_or_there_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the rehearsal a process finds carried wheels and the machine's distributions, and no others."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    environment = importlib.import_module("gpu_environment")
    carry = tmp_path / "carry"
    carry.mkdir()
    with zipfile.ZipFile(carry / f"brought-1.0-{ANY}.whl", "w") as archive:
        archive.writestr("brought.py", "")
    listed = tmp_path / "machine.txt"
    listed.write_text("packaging\n")
    variables = environment.build(tmp_path / "scratch", carry=carry, hide_all_but=listed)
    program = "import brought, packaging, sglang_platform.core as _, importlib.util as u; print(u.find_spec('pytest'))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False
    )
    assert done.stdout == "None\n", done.stderr


def test_a_cache_can_be_unpacked_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    cache = importlib.import_module("gpu_cache")
    entry = tmp_path / "cache" / "KEY"
    entry.mkdir(parents=True)
    (entry / "k.cubin").write_bytes(b"code")
    (entry / "k.ptx").write_text("left behind")
    (entry / "__grp__k.json").write_text(f'{{"child_paths": {{"k.cubin": "{entry}/k.cubin"}}}}')
    cache.pack(tmp_path / "cache", tmp_path / "cache.zip")
    with zipfile.ZipFile(tmp_path / "cache.zip") as archive:
        assert sorted(archive.namelist()) == ["KEY/__grp__k.json", "KEY/k.cubin"]
        assert archive.read("KEY/__grp__k.json") == b'{"child_paths": {"k.cubin": "@CACHE@/KEY/k.cubin"}}'


def test_the_key_of_another_triton_is_computed_as_triton_does(monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    cache = importlib.import_module("gpu_cache")
    from triton.runtime.cache import triton_key

    assert cache._key(Path(triton.__file__).parent, triton.__version__) == triton_key()


def test_contenders_are_laid_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    engine = importlib.import_module("gpu_engine")
    file = tmp_path / "engines.json"
    for contender, decode, tokens in (("sglang", 100.0, [[1, 2, 3]]), ("ours", 150.0, [[1, 2, 4]])):
        row = {"batch": 32, "prefill": 1000.0, "decode": decode, "tokens": tokens}
        for rows in ([], [row]):  # a later measurement takes the place of an earlier one
            engine._put(file, {"contender": contender, "cache": "as the model", "rows": rows})
    assert "| as the model | 32 | 1000 | 1000 | 100 | 150 | 1.50 | 2 of 3 |" in engine.compare(file)
    assert len(engine._read(file)) == 2


def test_the_first_run_names_checks_that_exist() -> None:
    script = (BENCHMARKS / "gpu_first_run.sh").read_text(encoding="utf-8")
    named = re.findall(r"--check \"?([a-z_.]+)", script)
    assert len(named) > 4
    assert set(named) <= set(registered())
