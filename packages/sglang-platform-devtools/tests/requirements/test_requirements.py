"""`sglang-platform host requirements`: SGLang's metadata without what the device cannot use."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.devtools.requirements.packages import CUDA_ONLY, PORTABLE, TORCH_EXTENSIONS, TORCH_FAMILY
from sglang_platform.devtools.requirements.selection import select

RELEASES = ("0.5.11", "0.5.23")


def read(text: str) -> dict[str, str]:
    """The requirements of a printed file, by name, as pip reads them."""
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    found = [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]
    return {canonicalize_name(one.name): str(one.specifier) for one in found}


@pytest.mark.sample(2)
@pytest.mark.parametrize("release", RELEASES)
def test_no_device_but_cuda_gets_cudas_packages(command, wheel, release: str) -> None:
    file = str(wheel(release))
    everything = read(command("host", "requirements", "--host", file, "--device", "cuda").stdout)
    assert {"flashinfer-python", "sglang-kernel", "torch"} <= set(everything)
    for device in ("none", "rocm", "acme_npu"):
        kept = read(command("host", "requirements", "--host", file, "--device", device).stdout)
        assert set(kept) - set(everything) <= {"triton"}
        assert set(everything) - set(kept) <= {*CUDA_ONLY, *TORCH_EXTENSIONS, *TORCH_FAMILY}
        assert {"transformers", "xgrammar", "timm", "nvidia-ml-py"} <= set(kept)


def test_pins_are_the_releases_own(command, wheel) -> None:
    kept = {v: read(command("host", "requirements", "--host", str(wheel(v))).stdout) for v in RELEASES}
    assert [kept[v]["transformers"] for v in RELEASES] == ["==5.6.0", "==5.19.0"]
    assert [kept[v]["torch"] for v in RELEASES] == ["==2.11.0", "==2.14.1"]


def test_torch_belongs_to_the_device(command, wheel) -> None:
    def lines(device: str) -> list[str]:
        run = command("host", "requirements", "--host", str(wheel("0.5.23")), "--device", device)
        return [line for line in run.stdout.splitlines() if line.startswith(("torch=", "torch ", "--extra"))]

    assert lines("none") == ["torch==2.14.1"]
    assert lines("cuda") == ["torch==2.14.1"]
    assert lines("rocm") == []
    (plugins,) = lines("acme_npu")
    assert plugins.startswith("torch  # SGLang asks for torch==2.14.1")


def test_an_unknown_package_is_kept_and_named(command, wheel) -> None:
    file = wheel("0.5.23", "fresh-thing>=2", "acme-kernels-cu13==1", 'for-windows; sys_platform == "win32"')
    found = command.json("host", "requirements", "--host", str(file))
    assert found["unknown"] == ["fresh-thing>=2"]
    assert {"requirement": "fresh-thing>=2", "note": "not known here whether the device can use it"} in found[
        "requirements"
    ]
    assert [
        one["requirement"] for one in found["left_out"] if one["note"] == "built for CUDA, as its name says"
    ] == ["acme-kernels-cu13==1"]
    assert "for-windows" not in json.dumps(found)
    assert "fresh-thing>=2  # not known" in command("host", "requirements", "--host", str(file)).stdout


def test_an_extra_brings_those_that_it_names(command, wheel) -> None:
    file = str(wheel("0.5.23"))
    base = read(command("host", "requirements", "--host", file).stdout)
    diffusion = read(command("host", "requirements", "--host", file, "--extra", "diffusion").stdout)
    everything = read(command("host", "requirements", "--host", file, "--extra", "all").stdout)
    assert set(diffusion) - set(base) >= {"diffusers", "cache-dit"}
    assert set(everything) > set(diffusion)
    assert "st-attn" not in everything


def test_a_package_that_is_not_wanted_is_left_out(command, wheel) -> None:
    arguments = ("--host", str(wheel("0.5.23")), "--without", "SMG_grpc.servicer")
    found = command.json("host", "requirements", *arguments)
    assert {"requirement": "smg-grpc-servicer>=0.9.0", "note": "not wanted (--without)"} in found["left_out"]
    assert "smg-grpc-servicer>=0.9.0" not in [one["requirement"] for one in found["requirements"]]


def test_a_version_is_taken_from_a_folder_of_wheels(command, wheel, tmp_path: Path) -> None:
    folder = wheel("0.5.11").parent
    output = tmp_path / "new" / "file.txt"
    arguments = ("--host", "0.5.11", "--wheels", str(folder), "--output", str(output))
    assert command("host", "requirements", *arguments).stdout == ""
    assert "pip install --no-deps sglang==0.5.11" in output.read_text()


def test_a_checkout_has_its_own_list(command, tmp_path: Path) -> None:
    pytest.importorskip("tomllib")
    (tmp_path / "checkout/python/sglang").mkdir(parents=True)
    (tmp_path / "checkout/python/pyproject.toml").write_text(
        '[project]\nname = "sglang"\ndynamic = ["version"]\ndependencies = ["numpy<3", "sglang-kernel==9"]\n'
    )
    found = command.json("host", "requirements", "--host", str(tmp_path / "checkout"))
    assert found["host"] is None
    assert [one["requirement"] for one in found["requirements"]] == ["numpy<3", "triton"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "no/such/file"], "no host that can be read"),
        (["--host", "0.5.12", "--no-download"], "There is no sglang 0.5.12 here"),
        (["--host", "0.5.12"], "sglang 0.5.12 could not be downloaded"),
        (["--host", "OTHER"], "is no release of sglang"),
        (["--host", "TEXT"], "cannot be read"),
        (["--host", "FOLDER"], "no pyproject.toml"),
        (["--host", "GOOD", "--extra", "difusion"], "has no extra 'difusion'"),
        (["--host", "GOOD", "--device", "a\nb"], "is no name of a device"),
        (["--host", "GOOD", "--output", "SITE"], "cannot be written"),
        (["--host", "BAD"], "a requirement that cannot be read: 'sgl kernel'"),
    ],
)
def test_what_cannot_be_answered_is_said(
    command, wheel, tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "text.whl").write_text("no archive")
    (tmp_path / "folder").mkdir()
    places = {
        "OTHER": lambda: wheel("0.5.11", name="vllm"),
        "TEXT": lambda: tmp_path / "text.whl",
        "FOLDER": lambda: tmp_path / "folder",
        "GOOD": lambda: wheel("0.5.23"),
        "BAD": lambda: wheel("0.5.23", "sgl kernel"),
        "SITE": lambda: tmp_path / "folder",
    }
    given = [str(places[one]()) if one in places else one for one in arguments]
    offline = {"PIP_NO_INDEX": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    run = command("host", "requirements", *given, **offline)
    assert (run.returncode, run.stdout) == (2, ""), run.stderr
    assert words in run.stderr
    assert "Traceback" not in run.stderr


def test_a_device_that_is_nearly_cuda_is_asked_about(command, wheel) -> None:
    run = command("host", "requirements", "--host", str(wheel("0.5.23")), "--device", "cdua")
    assert run.returncode == 0
    assert "did you mean 'cuda'?" in run.stderr


def test_no_package_is_in_two_lists() -> None:
    names = [*CUDA_ONLY, *PORTABLE, *TORCH_FAMILY, *TORCH_EXTENSIONS]
    assert len(names) == len(set(names))
    assert names == [canonicalize_name(one) for one in names]


@pytest.mark.host
def test_every_package_of_the_installed_release_is_known() -> None:
    selection = select(importlib.metadata.requires("sglang") or [], "example_oot")
    assert selection.unknown == []


def test_a_line_that_is_no_requirement_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        select(["what is this"], "none")
