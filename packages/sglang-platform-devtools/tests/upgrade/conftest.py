"""Two small releases of a host called `sglang`, as folders and as wheels, and a plugin; all refuse to be imported."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from sglang_platform.devtools.upgrade.plugin import open_source
from sglang_platform.devtools.upgrade.report import upgrade_of
from sglang_platform.devtools.upgrade.rows import CouplingChange, Upgrade
from sglang_platform.devtools.upgrade.wheels import open_release

HERE = Path(__file__).parent
PLUGIN = HERE / "plugin"


def wheel_of(folder: Path, version: str, out: Path) -> Path:
    """The folder's packages as a wheel of the distribution `sglang`."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"sglang-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*.py")):
            archive.write(file, file.relative_to(folder).as_posix())
        archive.writestr(f"sglang-{version}.dist-info/METADATA", f"Name: sglang\nVersion: {version}\n")
    return path


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of 0.1.0 and 0.2.0."""
    folder = tmp_path_factory.mktemp("wheels")
    wheel_of(HERE / "hosts" / "older", "0.1.0", folder)
    wheel_of(HERE / "hosts" / "newer", "0.2.0", folder)
    return folder


@pytest.fixture(scope="session")
def upgrade(wheels: Path) -> Upgrade:
    """The plugin from the older release to the newer."""
    return upgrade_of(open_source(str(PLUGIN)), open_release("0.1.0", wheels), open_release("0.2.0", wheels))


@pytest.fixture(scope="session")
def rows(upgrade: Upgrade) -> dict[tuple[str, str, str], CouplingChange]:
    """By kind, the last word of the target, and how."""
    return {
        (one.kind, one.target.replace(":", ".").rpartition(".")[2], one.how): one for one in upgrade.changes
    }
