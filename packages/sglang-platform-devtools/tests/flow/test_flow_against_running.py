"""What the reader says of a plugin beside a release, against what running the plugin there raises."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from guard_forms import GUARDS, NEW_USES, OLD_USES, UNCLEAR, UNGUARDED, plugin_source

from sglang_platform.devtools.flow.program import Program, follow
from sglang_platform.devtools.source.opening import open_plugin
from sglang_platform.devtools.upgrade.wheels import open_release

RUN = Path(__file__).parent / "programs" / "run_plugins.py"


def raised(plugins: Path, host: Path) -> dict[str, str]:
    """The class of what each plugin of a folder raises; the empty text for nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(RUN), str(host), str(plugins)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


release_at = functools.cache(lambda host: open_release(str(host)))


def read(plugin: Path, host: Path) -> Program:
    return follow(open_plugin(str(plugin)), release_at(host), [f"{plugin.stem}:register"])


def kinds(program: Program) -> set[str]:
    return {one.reach.kind for one in program.failures}


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


def differences(folder: Path, host: Path, named: dict[str, str]) -> list[str]:
    wrong = []
    for stem, error in raised(folder, host).items():
        told = kinds(read(folder / f"{stem}.py", host))
        if ("runs" in told) != bool(error) or "unsure" in told:
            wrong.append(
                f"{stem} {named[stem]}: raises {error or 'nothing'}, and the reader says {sorted(told)}"
            )
    return wrong


@pytest.mark.parametrize("release", ["0.5.11", "0.5.20", "0.5.9"])
def test_every_form_of_guard(hosts: dict[str, Path], tmp_path: Path, release: str) -> None:
    new = {one: NEW_USES[one] for one in ("import of a name", "import_module", "attribute")}
    named = write_all(tmp_path, GUARDS, new, OLD_USES)
    assert differences(tmp_path, hosts[release], named) == []


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
