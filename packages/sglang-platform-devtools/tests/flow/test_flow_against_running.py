"""What the reader says of a plugin beside a release, against what running the plugin there raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from guard_forms import CALLED_BY_HOST, GUARDS, NEW_USES, OLD_USES, UNCLEAR, UNGUARDED, plugin_source
from running import differences, kinds, read


def write_all(
    folder: Path, guards: dict[str, str], new: dict[str, str], old: dict[str, str]
) -> dict[str, str]:
    """A plugin for each guard and use; file name -> words for messages."""
    named = {}
    for place, (name, guard) in enumerate(guards.items()):
        for number, (use, statement) in enumerate(new.items()):
            other = list(old.values())[number % len(old)]
            stem = f"plugin_{place}_{number}"
            (folder / f"{stem}.py").write_text(plugin_source(guard, statement, other))
            named[stem] = f"{name}: {use}"
    return named


@pytest.mark.sample(3)
@pytest.mark.parametrize("release", ["0.5.11", "0.5.20", "0.5.9"])
def test_every_form_of_guard(hosts: dict[str, Path], tmp_path: Path, release: str) -> None:
    new = {one: NEW_USES[one] for one in ("import of a name", "import_module", "attribute")}
    named = write_all(tmp_path, GUARDS, new, OLD_USES)
    assert differences(tmp_path, hosts[release], named) == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("release", ["0.5.11", "0.5.23"])
def test_what_is_not_guarded(hosts: dict[str, Path], tmp_path: Path, release: str) -> None:
    named = write_all(tmp_path, UNGUARDED, NEW_USES, OLD_USES)
    assert differences(tmp_path, hosts[release], named) == []


@pytest.mark.parametrize("name", UNCLEAR)
def test_what_cannot_be_known_is_neither(hosts: dict[str, Path], tmp_path: Path, name: str) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(plugin_source(UNCLEAR[name], NEW_USES["import of a name"], "pass"))
    assert kinds(read(path, hosts["0.5.11"])) == {"unsure"}
    assert kinds(read(path, hosts["0.5.23"])) == set()


@pytest.mark.parametrize("name", CALLED_BY_HOST)
def test_what_the_host_calls_is_followed(hosts: dict[str, Path], tmp_path: Path, name: str) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(plugin_source(CALLED_BY_HOST[name], NEW_USES["import of a name"], "pass"))
    assert kinds(read(path, hosts["0.5.11"])) == set()
    path.write_text(plugin_source(CALLED_BY_HOST[name], "from sglang.srt import nothing", "pass"))
    assert kinds(read(path, hosts["0.5.23"])) == {"runs"}
