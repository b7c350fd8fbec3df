"""After a failure SGLang's flag, core's state and the child processes agree: a second try is refused in words.

Each case is a set of throw-away plugins that fail, and what a caller who catches the refusal sees.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warm_interpreter import run_warm

pytestmark = pytest.mark.host

_GENERAL, _PLATFORMS = "sglang.srt.plugins", "sglang.srt.platforms"
_COUNT = """
import os, pathlib
from sglang_platform.core import HookRegistry, HookType, SRTPlatform
from sglang_platform.core.discovery.entry import platform_plugin
def calls(name):
    file = pathlib.Path(os.environ["COUNTS"]) / f"count-{name}"
    count = int(file.read_text()) if file.exists() else 0
    file.write_text(str(count + 1))
    return count
def after(result, *args, **kwargs): return result
def hook(name="ServerArgs.__post_init__"): HookRegistry.register("sglang.srt.server_args:" + name, after)
"""
_BUSY = "if calls({name!r}) < {times}: raise {error}"
_TWICE = "attempt()\nattempt()\nstate()\n"
_AGAIN = "a process loads its plugins once, and this one failed before"


def _busy(name: str = "flaky", times: int = 1, error: str = "OSError('driver busy')") -> str:
    return _BUSY.format(name=name, times=times, error=error)


def _general(body: str, top: str = "", program: str = _TWICE, **environment: str) -> dict[str, Any]:
    """A case with the general plugin `flaky`."""
    source = f"{_COUNT}\n{top}\ndef register():\n    " + body.replace("\n", "\n    ")
    return {
        "modules": {"flaky_hooks": source},
        "groups": {_GENERAL: {"flaky": "flaky_hooks:register"}},
        "environment": {"SGLANG_PLATFORM": "example_oot", **environment},
        "program": program,
    }


def _platform(activate: str = "pass", top: str = "", inside: str = "pass") -> dict[str, Any]:
    """A case with the platform `chip`."""
    entry = f"{_COUNT}\n@platform_plugin\ndef activate():\n    {activate}\n    return 'chip_class:Chip'\n"
    names = 'device_name = "chip"\n    device_type = "cpu"'
    return {
        "modules": {
            "chip_plugin": entry,
            "chip_class": f"{_COUNT}\n{top}\nclass Chip(SRTPlatform):\n    {names}\n    {inside}\n",
        },
        "groups": {_PLATFORMS: {"chip": "chip_plugin:activate"}},
        "environment": {"SGLANG_PLATFORM": "chip"},
        "program": _TWICE,
    }


_THREADS = """
import threading
import sglang.srt.server_args
barrier = threading.Barrier(8)
def one():
    barrier.wait()
    attempt()
threads = [threading.Thread(target=one) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
state()
"""
_LOAD_LATE = """
import sglang.srt.platforms
sglang.srt.platforms.current_platform.device_name
import sglang.srt.plugins as theirs
"""
_START_A_CHILD = """
def start():
    import multiprocessing
    from sglang.srt.utils import get_bool_env_var
    child = multiprocessing.get_context("spawn").Process(target=get_bool_env_var, args=("ANY",))
    child.start()
    child.join()
    print("child", child.exitcode)
"""

_CASES: dict[str, dict[str, Any]] = {
    "function": _general("hook()\n" + _busy()),
    "import": _general("hook()", top=_busy()),
    "half_of_the_hooks": _general("hook()\n" + _busy() + "\nhook('ServerArgs.check_server_args')"),
    "twice": _general(_busy(times=2), program="attempt()\n" * 4 + "state()"),
    "interrupted": _general("hook()\n" + _busy(error="KeyboardInterrupt")),
    "exited": _general(_busy(error="SystemExit(3)")),
    "missing_target": _general("hook('ServerArgs.not_there')"),
    "on_sglangs_own_platform": _general("hook()\n" + _busy(), SGLANG_PLATFORM=""),
    "activate": _platform(activate=_busy("chip")),
    "class_import": _platform(top=_busy("chip")),
    "class_creation": _platform(inside="def __init__(self):\n        " + _busy("chip")),
    "threads": _general("import time; time.sleep(0.3); calls('flaky'); hook()", program=_LOAD_LATE + _THREADS),
    "threads_that_fail": _general(_busy(), program=_THREADS.replace("import sglang.srt.server_args\n", "")),
    "core_first": _general(
        _busy(),
        program="""
from sglang_platform.core import load_plugins
try:
    load_plugins()
except RuntimeError as error:
    print("refused", type(error).__name__, error)
"""
        + _TWICE,
    ),
    "variable_changed_after_a_failure": _general(
        _busy(), program="attempt()\nimport os; os.environ['SGLANG_PLATFORM_ON_ERROR'] = 'warn'\nattempt()\nstate()"
    ),
    "variable_changed_after_success": _general(
        "hook()",
        program=_START_A_CHILD
        + "attempt()\nimport os; os.environ['SGLANG_PLUGINS'] = 'sglang_platform_core,example_oot'\n"
        "try: start()\nexcept BaseException as error: print('refused', type(error).__name__, error)",
    ),
    "child_only": _general(
        "import multiprocessing\n"
        "if multiprocessing.current_process().name != 'MainProcess':\n    " + _busy(),
        program=_START_A_CHILD + "attempt()\nstart()\nstart()\nstate()",
    ),
    "left_out_in_the_child_too": _general(
        "hook()\nprint('runs', os.getpid())\n" + _busy(),
        program=_START_A_CHILD + "attempt()\nstart()\nstate()",
        SGLANG_PLATFORM_ON_ERROR="warn",
    ),
    "objects_of_sglang": _general(
        _busy(),
        program="attempt()\nfrom sglang.srt.platforms import current_platform\n"
        "try: current_platform.init_backend(); print('built')\n"
        "except BaseException as error: print('refused', type(error).__name__, error)",
    ),
}  # fmt: skip
_CASES["second_of_two"] = _general(_busy())
_CASES["second_of_two"]["modules"]["first_hooks"] = (
    f"{_COUNT}\ndef register():\n    calls('first')\n    hook()\n"
)
_CASES["second_of_two"]["groups"][_GENERAL] = {
    "afirst": "first_hooks:register",
    "flaky": "flaky_hooks:register",
}


@pytest.fixture(scope="module")
def outcomes(asked_names: set[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    cases = {name: case for name, case in _CASES.items() if name in asked_names or name not in _REFUSED}
    folder = tmp_path_factory.mktemp("second-tries")
    (folder / "cases.json").write_text(json.dumps(cases))
    program = Path(__file__).parent / "programs" / "try_again_after_failures.py"
    done = run_warm(program, str(folder / "cases.json"), str(folder), timeout=600)
    assert done.returncode == 0, done.stderr
    return {name: (folder / name / "output").read_text() for name in cases}


def _attempts(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith(("loaded", "refused"))]


_REFUSED = {
    "function": "general plugin 'flaky' failed",
    "import": "plugin 'flaky' could not be imported",
    "half_of_the_hooks": "general plugin 'flaky' failed",
    "twice": "general plugin 'flaky' failed",
    "exited": "general plugin 'flaky' failed",
    "missing_target": "1 required hook target does not exist",
    "on_sglangs_own_platform": "general plugin 'flaky' failed",
    "core_first": "general plugin 'flaky' failed",
    "variable_changed_after_a_failure": "general plugin 'flaky' failed",
    "second_of_two": "general plugin 'flaky' failed",
    "threads_that_fail": "general plugin 'flaky' failed",
}


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", sorted(_REFUSED))
def test_a_second_try_is_refused_again(outcomes: dict[str, str], name: str) -> None:
    output = outcomes[name]
    attempts = _attempts(output)
    assert len(attempts) >= 2, output
    assert all(line.startswith("refused") and _REFUSED[name] in line for line in attempts), output
    assert output.count(_AGAIN) >= len(attempts) - 1, output
    assert "start a new process" in output
    assert "flag False" in output
    assert "hook flaky" not in output or name == "missing_target", output


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("activate", "failed in activate()"),
        ("class_import", "could not be loaded"),
        ("class_creation", "could not be instantiated"),
    ],
)
def test_a_platform_that_failed_is_refused_again(outcomes: dict[str, str], name: str, word: str) -> None:
    attempts = _attempts(outcomes[name])
    assert len(attempts) == 2, outcomes[name]
    assert all(line.startswith("refused") and word in line for line in attempts), outcomes[name]


def test_an_interrupted_load_is_refused(outcomes: dict[str, str]) -> None:
    first, second = _attempts(outcomes["interrupted"])
    assert first.startswith("refused KeyboardInterrupt")
    assert "the loading of the plugins was interrupted" in second
    assert "hook flaky" not in outcomes["interrupted"]


def test_threads_that_load_at_once_all_find_the_plugins_loaded(outcomes: dict[str, str]) -> None:
    output = outcomes["threads"]
    assert _attempts(output) == ["loaded"] * 8, output
    assert output.count("hook flaky") == 1, output


def test_a_failure_in_a_child_leaves_the_parent_as_it_is(outcomes: dict[str, str]) -> None:
    output = outcomes["child_only"]
    assert _attempts(output) == ["loaded"], output
    assert "child 1" in output, output
    assert "general plugin 'flaky' failed" in output
    assert "child 0" in output
    assert "flag True" in output


def test_a_child_leaves_out_what_its_parent_went_on_without(outcomes: dict[str, str]) -> None:
    output = outcomes["left_out_in_the_child_too"]
    assert _attempts(output) == ["loaded"], output
    assert output.count("\nruns ") + output.startswith("runs ") == 1, output
    assert "hook flaky" not in output
    assert "child 0" in output


def test_a_variable_changed_after_the_load_is_refused_at_the_next_child(outcomes: dict[str, str]) -> None:
    output = outcomes["variable_changed_after_success"]
    assert "refused LaunchRefused SGLANG_PLUGINS changed after this process loaded its plugins" in output, (
        output
    )
    assert "child" not in output


def test_sglangs_objects_are_refused_too(outcomes: dict[str, str]) -> None:
    output = outcomes["objects_of_sglang"]
    assert "built" not in output, output
    assert _AGAIN in output, output
