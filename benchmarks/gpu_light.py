"""A light SGLang as wheels for another machine: what serving text needs, and that machine lacks."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from email.parser import Parser
from pathlib import Path

import tomllib
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

from sglang_platform.devtools.requirements.release import metadata_of
from sglang_platform.devtools.requirements.selection import CUDA, select
from sglang_platform.devtools.upgrade.release import HOST
from sglang_platform.devtools.upgrade.wheels import locate

__all__ = [
    "WITHOUT",
    "collect",
    "collect_counterparts",
    "installed_on",
    "is_met",
    "metadata_needs",
    "needs",
    "of_our_packages",
]

WITHOUT = (
    # Compiled for CUDA; core puts stubs or its own operators in their place.
    "cuda-python", "flash-attn-4", "flashinfer-cubin", "flashinfer-python", "kernels", "nvidia-cutlass-dsl",
    "nvidia-mathdx", "quack-kernels", "sgl-deep-gemm", "sglang-kernel", "tilelang", "tokenspeed-mla",
    "torch-memory-saver", "torchao", "torchcodec",
    # Grammars.
    "interegular", "llguidance", "outlines", "xgrammar",
    # Other servers and protocols than the engine.
    "anthropic", "openai-harmony", "smg-grpc-servicer", "watchfiles", "zstandard",
    # Images, sound, hubs, tools for developers.
    "blobfile", "build", "datasets", "easydict", "mistral-common", "modelscope", "py-spy", "soundfile", "timm",
)  # fmt: skip
"""Of SGLang's requirements, those that an engine of a text model never imports."""

IMPORTED = ("dill",)
"""What SGLang imports and does not require."""

_NOT_SERVED = ("sglang/multimodal_gen/", "sglang/test/", "sglang/srt/grpc/_core.")
"""Parts of SGLang's wheel that stay behind: diffusion, its tests, the gRPC server."""

_GLIBC = (39, 35, 34, 31, 28, 27, 26, 24, 17, 12, 5)
_PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in _GLIBC),
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
)
_ROOT = Path(__file__).resolve().parents[1]
_PROJECTS = ("packages/sglang-platform-core", "packages/sglang-platform-cuda", "conformance")


def installed_on(machine: Path) -> dict[str, str]:
    """The distributions of a list, by canonical name: the version, or nothing where the list has none."""
    lines = (line.strip() for line in machine.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): number for name, _, number in pairs}


def is_met(need: Requirement, versions: Mapping[str, str]) -> bool:
    """True if a distribution of the list is good enough; one without a version always is."""
    number = versions.get(canonicalize_name(need.name))
    return number is not None and (not number or need.specifier.contains(number, prereleases=True))


def needs(lines: Iterable[str], python: str) -> Iterator[Requirement]:
    """The requirements that hold on that Python without an extra."""
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
    for need in map(Requirement, lines):
        if need.marker is None or need.marker.evaluate({**environment, "extra": ""}):
            need.marker = None
            yield need


def metadata_needs(wheel: Path, python: str) -> list[Requirement]:
    """What a wheel requires on that Python."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = Parser().parsestr(archive.read(metadata).decode("utf-8"))
    return list(needs(found.get_all("Requires-Dist") or [], python))


def of_the_host(release: str) -> list[str]:
    """What the light form of a release requires, as `sglang-platform host requirements --device cuda` selects it."""
    metadata = metadata_of(locate(release, None))
    kept = select(metadata.requirements, CUDA, without=WITHOUT).kept
    return [*(line.requirement for line in kept), *IMPORTED]


def of_our_packages() -> list[str]:
    """What core, the CUDA package and the suite require, but for each other."""
    projects = [tomllib.loads((_ROOT / name / "pyproject.toml").read_text()) for name in _PROJECTS]
    lines = (line for project in projects for line in project["project"]["dependencies"])
    return [line for line in lines if not line.startswith("sglang-platform")]


def collect(folder: Path, release: str, python: str, machine: Mapping[str, str]) -> None:
    """Write the wheels: SGLang's without what is not served, and what it, our packages and the wheels require in turn,
    unless the machine has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        _repack(_downloaded(f"sglang=={release}", Path(scratch), python), folder)
    wanted = list(needs([*of_the_host(release), *of_our_packages()], python))
    held: dict[str, str] = {}
    while wanted:
        need = wanted.pop(0)
        name = canonicalize_name(need.name)
        if name in WITHOUT or name in held or is_met(need, machine):
            continue
        wheel = _downloaded(f"{need.name}{need.specifier}", folder, python)
        held[name] = str(parse_wheel_filename(wheel.name)[1])
        wanted += metadata_needs(wheel, python)


def collect_counterparts(folder: Path, beside: Path) -> None:
    """Write the wheels of `folder` that this Python cannot import, of the same versions, but for this Python."""
    beside.mkdir(parents=True, exist_ok=True)
    supported = frozenset(sys_tags())
    for wheel in folder.glob("*.whl"):
        name, number, _, tags = parse_wheel_filename(wheel.name)
        if not tags & supported and name != HOST:
            _downloaded(f"{name}=={number}", beside, None)


def _downloaded(requirement: str, folder: Path, python: str | None) -> Path:
    before = set(folder.glob("*.whl"))
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["-d", str(folder)]
    if python is not None:
        command += ["--python-version", python, "--implementation", "cp"]
        command += [word for platform in _PLATFORMS for word in ("--platform", platform)]
    done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
    new = set(folder.glob("*.whl")) - before
    if done.returncode or len(new) != 1:
        raise SystemExit(f"no wheel of {requirement} for Python {python}: {done.stderr.strip()[-500:]}")
    return new.pop()


def _repack(wheel: Path, folder: Path) -> None:
    """The wheel without `_NOT_SERVED`. Unpacked, it needs no true RECORD."""
    packed = zipfile.ZipFile(folder / wheel.name, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
    with zipfile.ZipFile(wheel) as source, packed as target:
        for entry in source.infolist():
            if not entry.filename.startswith(_NOT_SERVED):
                target.writestr(entry, source.read(entry), zipfile.ZIP_DEFLATED)
