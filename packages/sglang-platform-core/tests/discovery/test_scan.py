"""The fast scan gives what importlib_metadata gives for folders."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from unittest import mock

import importlib_metadata
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.distribution import normalize
from sglang_platform.core.errors import PluginOrigin

GROUPS = [
    "sglang.srt.platforms",
    "sglang.srt.plugins",
    "sglang_platform.contract",
    "console_scripts",
    "other",
]

# Few stems in many spellings, so that distributions collide.
stems = st.sampled_from(
    ["foo", "Foo", "foo_bar", "foo.bar", "Foo__Bar", "foo._bar", "baz", "sglang_x", "0day"]
)
names = st.text("ab-_.", min_size=1, max_size=3)
values = st.sampled_from(["pkg:f", "pkg.mod:Class.method", "pkg", "pkg:f [extra]", "a = b", "v1"])
sections = st.lists(
    st.tuples(st.sampled_from(GROUPS), st.lists(st.tuples(names, values), max_size=3)), max_size=3
)
texts = st.one_of(
    st.none(),
    sections,
    st.sampled_from(
        ["", "# sglang\n", "a = b\n[sglang.srt.plugins]\n", "\ufeff[sglang.srt.plugins]\na = b:c\n"]
    ),
)
distributions = st.fixed_dictionaries(
    {
        "stem": stems,
        "version": st.sampled_from(["1.0", "2.0", ""]),
        "suffix": st.sampled_from([".dist-info", ".dist-info", ".egg-info"]),
        "metadata": st.booleans(),
        "text": texts,
    }
)
entries = st.lists(distributions, max_size=5)
paths = st.lists(entries, min_size=1, max_size=4)


def _text(drawn: object) -> str | None:
    if isinstance(drawn, list):
        return "\n".join(f"[{g}]\n" + "\n".join(f"{k} = {v}" for k, v in pairs) for g, pairs in drawn)
    return drawn  # type: ignore[return-value]


def _files(distribution: dict[str, object]) -> dict[str, str]:
    stem, version, suffix = distribution["stem"], distribution["version"], str(distribution["suffix"])
    info = f"{stem}-{version}{suffix}" if version else f"{stem}{suffix}"
    files = {}
    if distribution["metadata"]:
        name = "PKG-INFO" if "egg" in suffix else "METADATA"
        files[f"{info}/{name}"] = (
            f"Metadata-Version: 2.1\nName: {stem}\nVersion: {version or '0'}\n\nName: no\n"
        )
    text = _text(distribution["text"])
    if text is not None:
        files[f"{info}/entry_points.txt"] = text
    return files


def _write(root: Path, index: int, drawn: list[dict[str, object]]) -> str:
    path = root / str(index)
    path.mkdir()
    for distribution in drawn:
        for name, text in _files(distribution).items():
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_text(text, encoding="utf-8")
    return str(path)


def _expected() -> list[tuple[str, str, str, str]]:
    return sorted(
        (point.group, point.name, point.value, point.dist._normalized_name)  # type: ignore[union-attr]
        for point in importlib_metadata.entry_points()
        if "sglang" in point.group
    )


def _found(result: scan.Scan) -> list[tuple[str, str, str, str]]:
    return sorted((r.group, r.name, r.value, normalize(r.origin.distribution or "")) for r in result.records)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(paths, st.booleans())
def test_equal_to_importlib_metadata(drawn: list[list[dict[str, object]]], twice: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = [_write(Path(folder), index, entry) for index, entry in enumerate(drawn)]
        path = [*path, *path[:1], "/does/not/exist"] if twice else path
        with mock.patch.object(sys, "path", path):
            result = scan.scan_paths(path)
            assert all("byte-order mark" in one.reason for one in result.unreadable)
            assert _found(result) == _expected()


def _distribution(
    folder: Path, info: str, entry_points: str | bytes | None, metadata: str | None = ""
) -> Path:
    path = folder / info
    path.mkdir(parents=True)
    if metadata is not None:
        name, _, version = info.rpartition(".")[0].partition("-")
        (path / "METADATA").write_text(
            metadata or f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    if entry_points is not None:
        text = entry_points if isinstance(entry_points, bytes) else entry_points.encode()
        (path / "entry_points.txt").write_bytes(text)
    return path


ONE = "[sglang.srt.platforms]\ndevice = pkg:activate\n"


def test_a_record_carries_the_name_and_version_that_the_metadata_states(tmp_path: Path) -> None:
    _distribution(
        tmp_path, "my_device-1.0.dist-info", ONE, "Name: My.Device\nVersion: 1.0.post1\n\nName: body\n"
    )
    (record,) = scan.scan_paths([tmp_path]).records
    assert record == (
        "sglang.srt.platforms",
        "device",
        "pkg:activate",
        PluginOrigin("device", "My.Device", "1.0.post1"),
    )


def test_the_first_of_two_installations_wins_and_the_other_is_reported(tmp_path: Path) -> None:
    first = _distribution(tmp_path / "a", "my_device-1.0.dist-info", ONE)
    second = _distribution(tmp_path / "b", "My.Device-2.0.dist-info", ONE)
    result = scan.scan_paths([str(tmp_path / "a"), str(tmp_path / "b")])
    assert [record.origin.version for record in result.records] == ["1.0"]
    assert result.hidden == ((str(second), str(first)),)


def test_an_older_installation_without_entry_points_hides_one_that_has_them(tmp_path: Path) -> None:
    _distribution(tmp_path / "a", "my_device-1.0.dist-info", None)
    second = _distribution(tmp_path / "b", "my_device-2.0.dist-info", ONE)
    result = scan.scan_paths([str(tmp_path / "a"), str(tmp_path / "b")])
    assert result.records == ()
    assert [hidden.path for hidden in result.hidden] == [str(second)]


def test_a_leftover_folder_without_metadata_hides_nothing(tmp_path: Path) -> None:
    _distribution(tmp_path / "a", "my_device-1.0.dist-info", None, metadata=None)
    _distribution(tmp_path / "b", "my_device-2.0.dist-info", ONE)
    result = scan.scan_paths([str(tmp_path / "a"), str(tmp_path / "b")])
    assert [record.origin.version for record in result.records] == ["2.0"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[sglang.srt.plugins]\nno equals sign\n", "'no equals sign'"),
        (b"[sglang.srt.plugins]\nname = caf\xe9:f\n", "utf-8"),
    ],
)
def test_a_broken_file_is_reported_and_costs_no_other_distribution(
    tmp_path: Path, text: bytes, reason: str
) -> None:
    _distribution(tmp_path / "site", "broken-1.0.dist-info", text)
    _distribution(tmp_path / "site", "good-1.0.dist-info", ONE)
    result = scan.scan_paths([tmp_path / "site"])
    assert [record.origin.distribution for record in result.records] == ["good"]
    (unreadable,) = result.unreadable
    assert "broken-1.0.dist-info" in unreadable.path
    assert reason in unreadable.reason


def test_broken_metadata_of_an_unrelated_distribution_is_not_our_business(tmp_path: Path) -> None:
    _distribution(tmp_path, "broken-1.0.dist-info", b"[console_scripts]\n\xff no equals sign\n")
    assert scan.scan_paths([tmp_path]) == scan.Scan()


def test_an_editable_installation_by_pth_is_found(tmp_path: Path) -> None:
    """Its metadata stands in site-packages, its source elsewhere; setuptools' `develop` has it beside that."""
    _distribution(tmp_path / "site", "modern-1.0.dist-info", ONE)
    (tmp_path / "site" / "_modern.pth").write_text(str(tmp_path / "source"))
    legacy = _distribution(tmp_path / "source", "legacy.egg-info", ONE, metadata=None)
    (legacy / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: legacy\nVersion: 0.1\n")
    (tmp_path / "site" / "legacy.egg-link").write_text(f"{tmp_path / 'source'}\n.")
    result = scan.scan_paths([str(tmp_path / "site"), str(tmp_path / "source")])
    assert [str(record.origin) for record in result.records] == ["device (legacy 0.1)", "device (modern 1.0)"]


def test_an_egg_with_plugins_is_reported(tmp_path: Path) -> None:
    for name, text in (("plugin", ONE), ("other", "[console_scripts]\nother = pkg:f\n")):
        (tmp_path / f"{name}.egg" / "EGG-INFO").mkdir(parents=True)
        (tmp_path / f"{name}.egg" / "EGG-INFO" / "entry_points.txt").write_text(text)
    result = scan.scan_paths([tmp_path / "plugin.egg", tmp_path / "other.egg"])
    assert result.records == ()
    assert [one.path for one in result.unreadable] == [str(tmp_path / "plugin.egg")]


def test_the_process_scans_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scan.invalidate()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    try:
        assert scan.records("sglang.srt.platforms") == ()
        _distribution(tmp_path, "late-1.0.dist-info", ONE)
        assert scan.records("sglang.srt.platforms") == ()
        scan.invalidate()
        assert [record.name for record in scan.records("sglang.srt.platforms")] == ["device"]
        assert scan.records("sglang.srt.plugins") == ()
    finally:
        scan.invalidate()
