"""`list --explain`, `info` and `doctor` outlive the plugins they ask, and name those that end, hang or are slow."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from command_runner import WIDE

SEGFAULT = "import ctypes; ctypes.string_at(0)"
ENDS = {
    "os._exit": ("import os; os._exit(7)", "ended the process with status 7"),
    "os._exit with status 0": ("import os; os._exit(0)", "ended the process with status 0"),
    "exit of C": ("import ctypes; ctypes.CDLL(None).exit(3)", "ended the process with status 3"),
    "a segmentation fault": (SEGFAULT, "ended the process by SIGSEGV"),
    "abort": ("import os; os.abort()", "ended the process by SIGABRT"),
    "terminate of C++": (
        "import ctypes; ctypes.CDLL('libstdc++.so.6')._ZSt9terminatev()",
        "ended the process by SIGABRT",
    ),
    "SIGKILL": ("import os; os.kill(os.getpid(), 9)", "ended the process by SIGKILL"),
    "SIGTERM": ("import os; os.kill(os.getpid(), 15)", "ended the process by SIGTERM"),
    "a thread of its own": (
        "import os, threading, time; threading.Thread(target=os._exit, args=(5,)).start(); time.sleep(20)",
        "ended the process with status 5",
    ),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
}
HERE = "return 'here_cls:Platform'"


@pytest.mark.sample(10)
@pytest.mark.parametrize("kind", ENDS)
def test_who_ends_the_process_is_named(command, kind: str) -> None:
    body, how = ENDS[kind]
    command.platform("rude", body)
    command.platform("here", HERE)
    for arguments in (["info"], ["list", "--explain"], ["doctor"]):
        run = command(*arguments)
        said = run.stdout + run.stderr
        assert run.returncode == 1, said
        assert f"platform plugin 'rude' {how}" in said
        assert "rude (rude-dist 1.0)" in said
        assert "rude_plugin.py:3" in said  # where activate() begins, with its decorator
        assert "SGLANG_PLATFORM_ON_ERROR" not in said  # no setting lets a launch survive it


def test_no_setting_but_another_name_lets_a_launch_go_on(command) -> None:
    command.platform("rude", ENDS["os._exit"][0])
    command.platform("here", HERE)
    assert command("info", SGLANG_PLATFORM="here").returncode == 0
    assert command("info", SGLANG_PLATFORM_ON_ERROR="warn").returncode == 1


@pytest.mark.parametrize("kind", ["os._exit", "a segmentation fault", "abort"])
def test_the_place_is_told_where_python_knows_it(command, kind: str) -> None:
    command.platform("rude", f"deep()\ndef deep():\n    {ENDS[kind][0]}")
    assert "rude_plugin.py:7 in deep" in command("info").stderr


def test_the_other_plugins_are_asked_and_shown_once(command, tmp_path) -> None:
    calls = tmp_path / "calls"
    note = f"open({str(calls)!r}, 'a').write(__name__ + ' ')"
    command.platform(
        "first", f"{note}; raise __import__('sglang_platform.core').core.PlatformUnavailable('away')"
    )
    command.platform("rude", f"{note}; import os; os._exit(7)")
    command.platform("zeta", f"{note}; return 'zeta_cls:Platform'")
    candidates = command.json("list", "--explain", status=1)["decision"]["candidates"]
    assert [one["outcome"] for one in candidates] == ["declined", "failed", "active"]
    assert sorted(calls.read_text().split()) == ["first_plugin", "rude_plugin", "zeta_plugin"]
    calls.unlink()
    assert command("doctor").returncode == 1
    assert sorted(calls.read_text().split()) == ["first_plugin", "rude_plugin", "zeta_plugin"]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("import os; os._exit(7)", "ended the process with status 7"),
        (SEGFAULT, "ended the process by SIGSEGV"),
        ("{0}\n    def __init__(self): import os; os._exit(9)", "ended the process with status 9"),
        ("{0}\n    device_name = property(lambda self: __import__('os').abort())", "by SIGABRT"),
    ],
)
def test_a_class_that_ends_the_process(command, source: str, how: str) -> None:
    command.platform("here", HERE)
    top = (
        "from sglang_platform.core import SRTPlatform\nclass Platform(SRTPlatform):\n    device_type = 'cpu'"
    )
    (command.folder / "here_cls.py").write_text(source.format(top))
    for arguments in (["info"], ["doctor"]):
        run = command(*arguments)
        said = run.stdout + run.stderr
        assert run.returncode == 1, said
        assert f"platform plugin 'here' {'' if how.startswith('by') else how}" in said
        assert how in said
        assert "here_cls" in said


def test_who_hangs_is_named_with_the_place(command) -> None:
    command.platform("slow", "import time\n    wait(time)\ndef wait(time):\n    time.sleep(600)")
    limit = "import sglang_platform.core.discovery.apart as apart; apart._LIMITS['activate'] = 1.0\n"
    (command.folder / "slow_cls.py").write_text("")
    code = f"{limit}from sglang_platform.core.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-S", "-c", code, "info"],
        env={"PYTHONPATH": command._path, "COLUMNS": WIDE},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 1
    assert "platform plugin 'slow' did not come back within 1 s" in run.stderr
    assert "slow_plugin.py:8 in wait" in run.stderr


@pytest.mark.long
def test_who_takes_over_a_second_is_named_with_the_duration(command) -> None:
    command.platform("slow", "import time; time.sleep(1.2); return 'slow_cls:Platform'")
    for arguments in ("info", "list --explain"):
        run = command(*arguments.split())
        assert run.returncode == 0
        assert "slow: activate() of slow (slow-dist 1.0) took 1." in run.stdout
    (finding,) = (one for one in command.json("doctor")["findings"] if one["id"] == "plugin-slow")
    assert finding["plugin"]["distribution"] == "slow-dist"
    assert "took 1." in finding["what"]
    assert json.loads(command("list", "--json").stdout)["plugins"]


def test_what_plugins_print_spoils_no_document(command) -> None:
    command.platform("here", "import os; print('from Python'); os.system('echo from a program'); " + HERE)
    assert command.json("info")["platform"]["plugin"] == "here"
    assert command.json("list", "--explain")["decision"]["candidates"]


@pytest.mark.long
def test_a_plugin_that_leaves_a_process_behind_keeps_nobody_waiting(command) -> None:
    command.platform("here", "import subprocess; subprocess.Popen(['sleep', '30']); " + HERE)
    assert command("info").returncode == 0
