"""`sglang-platform upgrade` and `check`: what they print and write, and the exit status scripts rely on."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from command_runner import too_wide

HERE = Path(__file__).parents[1] / "upgrade"
PLUGIN, OLDER, NEWER = (str(HERE / name) for name in ("plugin", "hosts/older", "hosts/newer"))
REQUIRED_OF_A_RUN = {"tool", "results"}


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """A plugin without a fault, with one line that depends on the host."""
    folder = tmp_path / "clean"
    package = folder / "src" / "clean_plugin"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "clean"\nversion = "1"\nrequires-python = ">=3.10"\ndependencies = ["sglang"]\n'
        '[project.entry-points."sglang.srt.plugins"]\nclean = "clean_plugin:register"\n'
    )
    (package / "__init__.py").write_text(
        "def register():\n    from sglang.srt.mem.pool import same\n\n    return same(1)\n"
    )
    return folder


# upgrade


def test_upgrade_says_what_breaks_and_gives_1(command) -> None:
    run = command("upgrade", PLUGIN, "--from", OLDER, "--to", NEWER, COLUMNS="80")
    assert run.returncode == 1, run.stderr
    assert "breaks: override sglang.srt.mem.pool:Base.store" in run.stdout
    assert "src/vendor/parts.py:" in run.stdout
    assert not too_wide(run.stdout)


def test_upgrade_as_json(command) -> None:
    document = command.json("upgrade", PLUGIN, "--from", OLDER, "--to", NEWER, status=1)
    row = next(
        one
        for one in document["changes"]
        if one["target"].endswith("Base.flush") and one["kind"] == "override"
    )
    assert row["how"] == "gone"
    assert row["places"][0]["file"] == "src/vendor/parts.py"
    assert document["not_looked_at"]
    assert document["looked_at"]["hook"] == 4


def test_upgrade_writes_a_page(command, tmp_path) -> None:
    target = tmp_path / "pages" / "report.html"
    command("upgrade", PLUGIN, "--from", OLDER, "--to", NEWER, "--html", str(target))
    text = target.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "sglang.srt.mem.pool:Base.flush" in text


def test_upgrade_where_nothing_changed(command, clean) -> None:
    run = command("upgrade", str(clean), "--from", OLDER, "--to", NEWER)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "none of them changed" in run.stdout


def test_upgrade_with_only_unread_places_gives_3(command, clean) -> None:
    (clean / "src" / "clean_plugin" / "more.py").write_text("from sglang.srt.mem.pool import *\n")
    assert command("upgrade", str(clean), "--from", OLDER, "--to", NEWER).returncode == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((PLUGIN, "--from", "9.9.9", "--to", NEWER, "--no-download"), "There is no sglang 9.9.9 here"),
        ((PLUGIN, "--from", "no-such-folder", "--to", NEWER), "'no-such-folder' is no host that can be read"),
        (("no-such-plugin", "--from", OLDER, "--to", NEWER), "'no-such-plugin' names no installed plugin"),
        (("nothing.whl", "--from", OLDER, "--to", NEWER), "The plugin 'nothing.whl' is not found"),
    ],
)
def test_what_cannot_be_read_gives_2(command, arguments, said) -> None:
    run = command("upgrade", *arguments)
    assert run.returncode == 2, run.stdout + run.stderr
    assert said in run.stderr
    assert "fix:" in run.stderr


def test_a_version_is_found_in_the_folder_of_wheels(command, clean, tmp_path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version, folder in (("0.1.0", OLDER), ("0.2.0", NEWER)):
        with zipfile.ZipFile(wheels / f"sglang-{version}-py3-none-any.whl", "w") as archive:
            for file in Path(folder).rglob("*.py"):
                archive.write(file, file.relative_to(folder).as_posix())
            archive.writestr(f"sglang-{version}.dist-info/METADATA", f"Name: sglang\nVersion: {version}\n")
    run = command(
        "upgrade", str(clean), "--from", "0.1.0", "--to", "0.2.0", "--wheels", str(wheels), "--no-download"
    )
    assert run.returncode == 0, run.stderr
    assert "sglang 0.1.0 to sglang 0.2.0" in run.stdout


def test_garbage_and_a_folder_without_a_plugin(command, tmp_path) -> None:
    garbage = tmp_path / "garbage.whl"
    garbage.write_bytes(b"\0not a wheel" * 40)
    run = command("upgrade", str(garbage), "--from", OLDER, "--to", NEWER)
    assert run.returncode == 2
    assert "cannot be read as a wheel" in run.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    run = command("upgrade", str(empty), "--from", OLDER, "--to", NEWER)
    assert run.returncode == 2
    assert "has no Python source" in run.stderr


def test_a_file_that_cannot_be_parsed_is_said(command, clean) -> None:
    (clean / "src" / "clean_plugin" / "broken.py").write_text("import sglang\ndef (:\n")
    run = command("upgrade", str(clean), "--from", OLDER, "--to", NEWER)
    assert run.returncode == 3
    assert "broken.py" in run.stdout
    assert "cannot be parsed" in run.stdout.replace("\n", " ")


# check


def test_a_clean_plugin_passes(command, clean) -> None:
    run = command("check", str(clean), "--host", OLDER, "--source-only", "--allow-unread")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "nothing wrong" in run.stdout


def test_not_running_it_is_incomplete(command, clean) -> None:
    run = command("check", str(clean), "--host", OLDER, "--source-only")
    assert run.returncode == 3
    assert "incomplete" in run.stdout


def test_check_tells_every_part(command) -> None:
    document = command.json("check", PLUGIN, "--host", NEWER, "--source-only", status=1)
    found = {(one["part"], one["id"]) for one in document["remarks"] if one["level"] == "problem"}
    assert ("couplings", "host-import-missing") in found
    assert ("hooks", "hook-missing") in found
    assert document["verdict"] == "problems found"
    lines = {(one["file"], one["line"]) for one in document["remarks"] if one["part"] == "couplings"}
    assert ("src/vendor/parts.py", 5) in lines


def test_what_the_installed_plugin_answers_is_told(command, clean) -> None:
    (clean / "src" / "clean_plugin" / "__init__.py").write_text("raise RuntimeError('driver gone')\n")
    (clean / "pyproject.toml").write_text(
        (clean / "pyproject.toml").read_text().replace("sglang.srt.plugins", "sglang.srt.platforms")
    )
    document = command.json("check", str(clean), "--host", OLDER, status=1)
    told = [one for one in document["remarks"] if one["part"] == "installation"]
    assert any("driver gone" in f"{one['what']} {one['why']}" for one in told), document


def test_a_device_type_that_torch_cannot_parse_is_told(command, clean) -> None:
    (clean / "src" / "clean_plugin" / "__init__.py").write_text(
        "from sglang_platform.core import SRTPlatform\nTYPE = 'clean2'\n"
        "def register():\n    return 'clean_plugin:Clean'\n"
        "class Clean(SRTPlatform):\n    device_type = TYPE\n"
    )
    (clean / "pyproject.toml").write_text(
        (clean / "pyproject.toml").read_text().replace("sglang.srt.plugins", "sglang.srt.platforms")
    )
    document = command.json("check", str(clean), "--host", OLDER, status=1)
    assert any("torch reads lower-case" in str(one["why"]) for one in document["remarks"]), document


@pytest.mark.parametrize(
    ("old", "new", "id"),
    [
        (
            '[project.entry-points."sglang.srt.plugins"]',
            '[project.entry-points."sglang.plugins"]',
            "group-unread",
        ),
        ("clean_plugin:register", "clean_plugin:regster", "entry-point-nowhere"),
        ("clean_plugin:register", "other_plugin:register", "entry-point-nowhere"),
        ('requires-python = ">=3.10"', 'requires-python = "<3.9"', "python-excluded"),
        ('["sglang"]', '["sglang >=>= 1"]', "requirement-unread"),
        ('version = "1"', 'version = "1"\nreadme = "README.md"', "file-missing"),
        ("[project]", "[project", "metadata-unread"),
    ],
)
def test_packaging(command, clean, old, new, id) -> None:
    file = clean / "pyproject.toml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    document = command.json("check", str(clean), "--host", OLDER, "--source-only", status=1)
    assert id in {one["id"] for one in document["remarks"] if one["level"] == "problem"}, document


def test_no_metadata_at_all(command, clean) -> None:
    (clean / "pyproject.toml").unlink()
    document = command.json("check", str(clean), "--host", OLDER, "--source-only", status=1)
    assert document["remarks"][0]["id"] == "metadata-unread"


def test_a_wheel_is_checked_and_its_record_held_against_it(command, clean, tmp_path) -> None:
    wheel = tmp_path / "clean-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(clean / "src" / "clean_plugin" / "__init__.py", "clean_plugin/__init__.py")
        archive.writestr(
            "clean-1.dist-info/METADATA",
            "Name: clean\nVersion: 1\nRequires-Python: >=3.10\nRequires-Dist: sglang\n",
        )
        archive.writestr(
            "clean-1.dist-info/entry_points.txt", "[sglang.srt.plugins]\nclean = clean_plugin:register\n"
        )
        archive.writestr(
            "clean-1.dist-info/RECORD", "clean_plugin/__init__.py,,\nclean_plugin/kernels.so,,\n"
        )
    document = command.json("check", str(wheel), "--host", OLDER, "--source-only", status=1)
    missing = [one for one in document["remarks"] if one["id"] == "file-missing"]
    assert [one["what"].split()[0] for one in missing] == ["clean_plugin/kernels.so"]


def test_sarif(command, tmp_path) -> None:
    target = tmp_path / "check.sarif"
    command("check", PLUGIN, "--host", NEWER, "--source-only", "--sarif", str(target))
    document = json.loads(target.read_text())
    assert document["version"] == "2.1.0"
    run = document["runs"][0]
    assert set(run) >= REQUIRED_OF_A_RUN
    driver = run["tool"]["driver"]
    assert driver["name"]
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(set(rules)) == len(rules)
    assert run["results"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note", "none")
        assert result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        assert not place["artifactLocation"]["uri"].startswith(("/", "file:"))
        assert ".." not in place["artifactLocation"]["uri"]
        assert place["region"]["startLine"] >= 1
    files = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]}
    assert "src/vendor/parts.py" in files
    assert all((Path(PLUGIN) / one).is_file() for one in files)


def test_the_page_and_80_columns(command, tmp_path) -> None:
    target = tmp_path / "check.html"
    run = command("check", PLUGIN, "--host", NEWER, "--source-only", "--html", str(target), COLUMNS="80")
    assert not too_wide(run.stdout)
    assert "hook-missing" in target.read_text()


def test_a_place_that_cannot_be_written(command, tmp_path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    run = command("check", PLUGIN, "--host", NEWER, "--source-only", "--html", str(blocked / "page.html"))
    assert run.returncode == 2
    assert "cannot be written" in run.stderr


def test_nothing_of_either_side_is_imported(command, clean) -> None:
    """Every module of the hosts and of the plugin ends the process that imports it."""
    shutil.copytree(OLDER, clean / "host")
    run = command("upgrade", PLUGIN, "--from", str(clean / "host"), "--to", NEWER)
    assert "was imported" not in run.stdout + run.stderr
