"""Where a host's sources come from: wheels, folders, what is installed; and what is refused."""

from __future__ import annotations

import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.devtools.hook_check.check import check
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.opening import open_host

TARGET = "made_host.mod:f"
SOURCE = "def f(): pass\ndef g(): f()\nraise SystemExit('imported')\n"


def verdict(where: str) -> str:
    (row,) = check([WantedHook(TARGET)], open_host(where, {"made_host"}))
    return row.verdict


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "checkout" / "made_host"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "mod.py").write_text(SOURCE)
    return package


def test_a_folder_may_be_the_package_or_hold_it(folder) -> None:
    assert verdict(str(folder)) == "exists"
    assert verdict(str(folder.parent)) == "exists"
    assert open_host(str(folder), {"made_host"}).label == str(folder)


@pytest.mark.parametrize("between", ["src", "python"])
def test_a_folder_may_be_a_checkout(tmp_path, folder, between) -> None:
    (tmp_path / between).mkdir()
    folder.rename(tmp_path / between / "made_host")
    assert verdict(str(tmp_path)) == "exists"


def test_a_relative_folder_works(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    assert verdict(".") == "exists"


def test_a_folder_s_commands_are_callers(folder) -> None:
    (folder / "mod.py").write_text("def f(): pass\n")
    assert verdict(str(folder.parent)) == "bypassed"
    (folder.parent / "pyproject.toml").write_text("[project.scripts]\nmade = 'made_host.mod:f'\n")
    assert verdict(str(folder.parent)) == "exists"


def test_a_package_without_an_init_and_files_that_no_import_can_name_are_no_trouble(folder) -> None:
    (folder / "plain").mkdir()
    (folder / "plain" / "deep.py").write_text("from made_host.mod import f\n")
    (folder / "not-a-name").mkdir()
    (folder / "not-a-name" / "x.py").write_text("")
    (folder / "2bad.py").write_text("")
    (row,) = check([WantedHook("made_host.plain.deep:f")], open_host(str(folder), {"made_host"}))
    assert (row.verdict, row.defined_at) == ("exists", TARGET)


def test_a_package_hides_a_module_of_its_name_as_it_does_for_python(folder) -> None:
    (folder / "mod").mkdir()
    (folder / "mod" / "__init__.py").write_text("")
    assert verdict(str(folder)) == "missing"


def test_a_wheel_says_what_it_is_and_is_not_unpacked(wheel) -> None:
    path = wheel({"made_host.mod": SOURCE}, version="0.5.99")
    host = open_host(str(path), set())
    assert host.label == "host 0.5.99 (host-0.5.99-py3-none-any.whl)"
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert verdict(str(path)) == "exists"


def test_source_with_an_encoding_and_odd_escapes_is_read_in_silence(tmp_path, recwarn) -> None:
    path = tmp_path / "odd.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "made_host/mod.py", "# coding: latin-1\nx = '\xe9\\d'\n".encode("latin-1") + SOURCE.encode()
        )
    assert verdict(str(path)) == "exists"
    assert not recwarn.list


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str = "1.2.3") -> None:
    info = folder.parent / f"made_host-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: made_host\nVersion: {version}\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nmade = made_host.mod:command\n")
    monkeypatch.syspath_prepend(str(folder.parent))


@pytest.mark.parametrize("where", ["installed", "1.2.3"])
def test_what_is_installed_is_read_and_not_imported(folder, monkeypatch, where) -> None:
    install(folder, monkeypatch)
    assert verdict(where) == "exists"
    assert open_host(where, {"made_host"}).label == "made_host 1.2.3 (installed)"
    assert "made_host" not in sys.modules


def test_the_commands_of_what_is_installed_are_callers(folder, monkeypatch) -> None:
    install(folder, monkeypatch)
    (folder / "mod.py").write_text("def command(): pass\n")
    (row,) = check([WantedHook("made_host.mod:command")], open_host("installed", {"made_host"}))
    assert row.verdict == "exists"


def test_another_version_than_the_installed_one_is_refused_with_the_way_to_get_it(
    folder, monkeypatch
) -> None:
    install(folder, monkeypatch)
    with pytest.raises(ConfigurationError, match=r"made_host 9\.9 is not installed") as caught:
        open_host("9.9", {"made_host"})
    assert caught.value.why == "installed: made_host 1.2.3"
    assert "pip download" in caught.value.fix


REFUSED = {
    "nothing of the name": ("no/such/thing", "is no host that can be read"),
    "not installed": ("installed", "made_host is not installed"),
    "an empty folder": ("empty", "has none of the packages made_host"),
    "no wheel": ("text.whl", "cannot be read as a wheel"),
    "a wheel without modules": ("bare.whl", "has no Python modules"),
}


@pytest.mark.parametrize(("where", "what"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_a_host_is_refused(tmp_path, monkeypatch, where, what) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("text.whl").write_text("no zip")
    with zipfile.ZipFile("bare.whl", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(ConfigurationError, match=what) as caught:
        open_host(where, {"made_host"})
    assert caught.value.fix


def test_files_are_read_once_and_only_if_needed(tmp_path) -> None:
    path = tmp_path / "big.whl"
    others = "".join(f"def g{i}(): pass\n" for i in range(3))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("made_host/mod.py", SOURCE)
        for i in range(50):
            archive.writestr(f"made_host/other{i}.py", textwrap.dedent(others))
    host = open_host(str(path), set())
    read: list[str] = []
    inner = host._read
    host._read = lambda name: (read.append(name), inner(name))[1]
    check([WantedHook("made_host.mod:f"), WantedHook("made_host.mod:missing")], host)
    assert len(read) == len(set(read))
