"""No file of the repository tests a device string by a part of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from device_prefixes import device_prefixes, native_device_prefixes
from findings import refuse
from import_graph import ROOT

READ = {".py": device_prefixes, ".cpp": native_device_prefixes, ".h": native_device_prefixes}
ITSELF = {Path(__file__).name, "test_new_device_types.py"}


def _found() -> Iterator[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in map(Path, listed.splitlines()):
        read = READ.get(path.suffix)
        if read is None or path.name in ITSELF or not (ROOT / path).is_file():
            continue
        for line, text in read((ROOT / path).read_text(encoding="utf-8")):
            yield f"{path}:{line}: {text}"


def test_devices_are_compared_by_type() -> None:
    refuse(list(_found()), "compare torch.device(...).type, never a part of a device string")


@pytest.mark.parametrize(
    "text",
    [
        'str(self.device).startswith("cpu")',
        'device.startswith(("cuda", "npu"))',
        'name.startswith("cuda:")',
        '"cuda" in str(tensor.device)',
        '"cuda" not in device_type',
        'device[:4] == "cuda"',
        're.match("cuda", device)',
        're.search(r"^cpu", str(x.device))',
        'str(device).find("xpu") == 0',
        'location.removeprefix("cuda:")',
        'device.endswith("cpu")',
    ],
)
def test_a_test_of_a_part_is_seen(text: str) -> None:
    assert [line for line, _ in device_prefixes(f"x = {text}\n")] == [1]


@pytest.mark.parametrize(
    "text",
    [
        'torch.device(device).type == "cpu"',
        'device.type in ("cuda", "xpu")',
        '"cpu" in devices',
        '"cuda" in torch.backends.__dict__',
        'name.startswith("cudart")',
    ],
)
def test_a_whole_type_passes(text: str) -> None:
    assert not list(device_prefixes(f"x = {text}\n"))


@pytest.mark.parametrize(
    "text",
    ['if (device.str().rfind("cuda", 0) == 0)', 'strncmp(name, "cpu", 3)', 'name.substr(0, 4) == "cuda"'],
)
def test_a_part_in_cpp_is_seen(text: str) -> None:
    assert len(list(native_device_prefixes(text))) == 1
