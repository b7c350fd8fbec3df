"""A source checkout of SGLang's main in the place of a release: its version, its environment, the upgrade report."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.sglang.versions import NEWEST, TABLE, facts_for
from sglang_platform.devtools.upgrade.plugin import open_source
from sglang_platform.devtools.upgrade.report import upgrade_of
from sglang_platform.devtools.upgrade.wheels import open_release
from tools.versions.checkout import install, sources_of, version_of
from tools.versions.newest import write_reports

PLATFORMS = "srt/platforms"
PLUGIN = """
from sglang.srt.platforms.interface import SRTPlatform


class Acme(SRTPlatform):
    def get_device_total_memory(self, device_id: int = 0) -> int:
        return 1


def total(platform: SRTPlatform) -> int:
    return platform.get_device_total_memory(device_id=0)
"""


def _checkout(folder: Path) -> Path:
    """The sources of the installed SGLang as far as platforms go, laid out as in its repository."""
    found = importlib.util.find_spec("sglang")
    assert found is not None
    assert found.origin is not None
    installed, sources = Path(found.origin).parent, folder / "python" / "sglang"
    shutil.copytree(installed / PLATFORMS, sources / PLATFORMS, ignore=shutil.ignore_patterns("__pycache__"))
    (sources / "__init__.py").write_text("")
    (sources / "srt" / "__init__.py").write_text("")
    (folder / "python" / "pyproject.toml").write_text('[project]\nname = "sglang"\ndynamic = ["version"]\n')
    return folder


def _git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


NEXT = ".".join([*NEWEST.split(".")[:-1], str(int(NEWEST.split(".")[-1]) + 1)])
"""The release after the newest that the adapter knows."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return _checkout(tmp_path / "checkout")


@pytest.fixture
def doctored(tmp_path: Path) -> Path:
    """As after a change on main: a method's argument has another name."""
    folder = _checkout(tmp_path / "doctored")
    changed = 0
    for file in (folder / "python" / "sglang" / PLATFORMS).rglob("*.py"):
        text = file.read_text()
        new = text.replace(
            "def get_device_total_memory(self, device_id:", "def get_device_total_memory(self, index:"
        )
        changed += new != text
        file.write_text(new)
    assert changed, "SGLang's platforms no longer have the argument that this test renames"
    return folder


def test_the_version_is_that_of_the_last_tag_and_the_commits_after_it(checkout: Path) -> None:
    _git(checkout, "init", "-q")
    _git(checkout, "add", "-A")
    _git(checkout, "commit", "-q", "-m", "one")
    commit = _git(checkout, "rev-parse", "--short", "HEAD")
    assert version_of(checkout).startswith(f"{NEXT}.dev0+g")
    _git(checkout, "tag", "v0.5.23")
    assert version_of(checkout) == "0.5.23"
    _git(checkout, "commit", "-q", "--allow-empty", "-m", "two")
    assert version_of(checkout).startswith("0.5.24.dev1+g")
    assert commit not in version_of(checkout)
    _git(checkout, "tag", "v0.6.0rc1")
    _git(checkout, "commit", "-q", "--allow-empty", "-m", "three")
    assert version_of(checkout).startswith("0.6.0.dev1+g")


def test_without_git_the_version_is_what_a_build_left_or_one_after_the_newest_release(checkout: Path) -> None:
    assert version_of(checkout) == f"{NEXT}.dev0+checkout"
    (checkout / "python" / "sglang" / "_version.py").write_text(
        f"__version__ = version = '{NEXT}.dev7+g12'\n"
    )
    assert version_of(checkout) == f"{NEXT}.dev7+g12"


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no source checkout of SGLang"):
        sources_of(tmp_path)


@pytest.mark.parametrize(
    "version", [f"{NEXT}.dev0+g1a2b3c4", f"{NEWEST}.post1.dev3+g12", "0.0.0.dev0", "0.6.0"]
)
def test_the_adapter_takes_it_for_the_newest_release_and_says_so(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    facts_for.cache_clear()
    with caplog.at_level(logging.WARNING):
        found = facts_for(version)
    assert {name: getattr(found, name) for name in TABLE} == {name: TABLE[name].newest for name in TABLE}
    assert f"SGLang {version} is newer" in caplog.text
    assert f"it is served as {NEWEST} is" in caplog.text


@pytest.mark.parametrize("version", [NEWEST, f"{NEWEST}+cu129"])
def test_of_the_newest_release_itself_nothing_is_said(version: str, caplog: pytest.LogCaptureFixture) -> None:
    facts_for.cache_clear()
    with caplog.at_level(logging.WARNING):
        facts_for(version)
    assert caplog.text == ""


def test_an_environment_has_the_checkout_before_the_release_that_it_shares(
    checkout: Path, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    shared = [entry for entry in sys.path if entry.endswith(("site-packages", "/src"))]
    (site / "shared_with_host.pth").write_text("\n".join(shared) + "\n")
    assert install(checkout, site) == install(checkout, site) == f"{NEXT}.dev0+checkout"
    program = Path(__file__).parent / "programs" / "tell_of_the_host.py"
    done = subprocess.run(
        [str(tmp_path / "env" / "bin" / "python"), str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "origin": str(checkout / "python" / "sglang" / "__init__.py"),
        "version": f"{NEXT}.dev0+checkout",
        "facts_of": f"{NEXT}.dev0+checkout",
        "finished_arguments": TABLE["finished_arguments"].newest,
    }
    assert f"it is served as {NEWEST} is" in done.stderr


def test_the_upgrade_report_reads_checkouts_on_both_sides(
    checkout: Path, doctored: Path, tmp_path: Path
) -> None:
    plugin = tmp_path / "acme.py"
    plugin.write_text(PLUGIN)
    old, new = open_release(str(checkout)), open_release(str(doctored))
    assert upgrade_of(open_source(str(plugin)), old, old).changes == ()
    changes = upgrade_of(open_source(str(plugin)), old, new).changes
    assert {change.verdict for change in changes} >= {"breaks"}
    assert any("index" in change.what or "device_id" in change.what for change in changes)


def test_the_newest_step_reports_on_a_checkout(doctored: Path, tmp_path: Path) -> None:
    """Since the release that is installed here."""
    out = tmp_path / "out"
    out.mkdir()
    plugin = tmp_path / "acme"
    plugin.mkdir()
    (plugin / "acme.py").write_text(PLUGIN)
    (plugin / "pyproject.toml").write_text('[project]\nname = "acme"\nversion = "1"\n')
    installed = importlib.metadata.version("sglang")
    write_reports(str(doctored), [installed], [str(plugin)], out, None)
    report = json.loads((out / "acme.json").read_text())
    assert report["from"] == f"sglang {installed}"
    assert str(doctored) in report["to"]
    assert "breaks" in {change["verdict"] for change in report["changes"]}
